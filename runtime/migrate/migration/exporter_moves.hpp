#pragma once

#include "driver/driver.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vma {

/// What a slot of exported memory is to show.
struct ExporterChunk {
  std::size_t slot = 0;
  ChunkHandle handle{};
  Place at;
  std::uint64_t size_bytes = 0;
};

/// One move of exported memory, for the processes that have imported it. The calls come in this
/// order; the destructor of one that was not decided calls the move off.
///
/// One thread, which has the claim and `operations()` of the allocation until its end: so no other
/// process can import meanwhile.
class ExporterMove {
 public:
  virtual ~ExporterMove() = default;
  /// Each importer gets the chunks and prepares all that can fail. Nothing is stopped on return.
  /// Throws: Error{busy} if one does not answer within the limit, or as one refuses; it names the
  /// process. Blocks: for that. Requires: the chunks exist until the end of this object.
  virtual void prepare(std::span<const ExporterChunk> chunks) = 0;
  /// On return no work of the importers runs that can use the memory, until the move has been
  /// decided or called off. Throws: as `prepare`.
  virtual void stop() = 0;
  /// True: all switch to the chunks, whatever happens to this process. False: an importer has
  /// called the move off, so that none does.
  virtual bool decide() noexcept = 0;
  /// What it was like for the importers.
  struct Account {
    int importers = 0;
    std::chrono::nanoseconds stall{0};  ///< The longest time that one of them was stopped.
  };
  /// Waits until the importers use the former chunks no longer; those that do not answer within the
  /// limit switch later, or have ended. Requires: decided.
  virtual Account await_end() noexcept = 0;
};

/// Makes importers follow the moves of exported memory. Any thread.
class ExporterMoves {
 public:
  /// How long each answer of an importer may take, and how long the importers may be stopped until
  /// the move is decided. Of the processor's clock, since other processes do not know that of a
  /// simulated machine.
  struct Limits {
    std::chrono::nanoseconds answer{0}, decision{0};
  };
  virtual ~ExporterMoves() = default;
  /// Throws: std::bad_alloc; Error{pinned} if it ends.
  virtual std::unique_ptr<ExporterMove> begin(const Allocation& allocation,
                                              const Limits& limits) = 0;
};

/// A move that another process decides, of memory that this one has imported from it.
class ImporterMove {
 public:
  virtual ~ImporterMove() = default;
  /// All is prepared: says so, and waits until the work has to stop. Throws: Error if the move was
  /// called off.
  virtual void ready() = 0;
  /// No work that can use the memory runs, and the slots show the targets: says so, and waits for
  /// the decision. Whether the slots keep the targets.
  virtual bool stopped() noexcept = 0;
};

/// A slot of imported memory, and what it is to show.
struct ImporterChunk {
  std::size_t slot = 0;
  Chunk chunk;
};

}  // namespace vma
