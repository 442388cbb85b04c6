#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "memory/move_claim.hpp"
#include "migrate/moves/migrator.hpp"
#include "sharing/share_channel.hpp"
#include "sharing/share_protocol.hpp"
#include "sharing/shared_decision.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace vma {

/// Makes chunks of what exporters send. Any thread.
class ImportedChunks {
 public:
  ImportedChunks(Memory& memory, const PlaceNames& places) : memory_(memory), places_(places) {}

  /// Throws: Error{unreachable} if this process does not use the place; what the driver throws.
  /// Blocks: for the turn for slow calls, and in the driver. The descriptor stays the caller's.
  Chunk take(const SharedChunk& shared, int descriptor) const;

 private:
  Memory& memory_;
  const PlaceNames& places_;
};

/// One move of imported memory, from its announcement by the exporter until this process has
/// answered that it has ended. A move that does not go on in time, or from which the exporter
/// disappears, is called off for all processes, or has been decided: so nothing here waits for
/// ever. One thread.
/// One owner: each field is of the one move, from its offer to its end.
class FollowedImporterMove final : public ImporterMove {
 public:
  /// All outlive it. `left` says whether this process has let go of the import. Throws:
  /// Error{peer_failure}.
  FollowedImporterMove(Memory& memory, Migrator& migrator, const ImportedChunks& chunks,
                       const ShareStop& stop, ShareChannel& channel,
                       std::shared_ptr<Allocation> allocation, ShareMessage announcement,
                       std::function<bool()> left);

  /// Throws: Error{peer_failure} if the connection is of no more use.
  void run();

  /// Made by the first call, so that it is there when no memory is left.
  static const Error& no_memory();

  void ready() override;
  bool stopped() noexcept override;

 private:
  std::optional<Error> attempt() noexcept;
  void tell_end(TimePoint deadline);
  void refuse(const Error& why, TimePoint deadline) noexcept;
  MoveClaim take_claim();
  void take_chunks();
  ShareMessage await(ShareKind expected);
  void require_open() const;
  bool must_end() const noexcept;
  bool leaves();

  Memory& memory_;
  Migrator& migrator_;
  const ImportedChunks& imported_;
  const ShareStop& stop_;
  ShareChannel& channel_;
  const std::shared_ptr<Allocation> allocation_;
  ShareMessage offer_;
  const std::function<bool()> left_;
  SharedDecision decision_;
  SteadyClock clock_;
  TimePoint deadline_{0};
  std::vector<ImporterChunk> chunks_;
  std::chrono::nanoseconds stall_{0};
};

/// The connections of one runtime's imports. Any thread.
class FollowedImports {
 public:
  struct Entry {
    explicit Entry(std::shared_ptr<ShareChannel> opened) : channel(std::move(opened)) {}
    std::shared_ptr<ShareChannel> channel;
    std::weak_ptr<Allocation> allocation;  ///< Set once begun.
    std::atomic<bool> begun{false};        ///< The channel is the follower's.
    std::atomic<bool> left{false};         ///< The memory was freed.
    bool ended = false;                    ///< The exporter says no more. Only of the follower.
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  /// Throws: Error{out_of_memory} without descriptors left.
  FollowedImports();
  void add(std::shared_ptr<Entry> entry);
  void remove(const std::shared_ptr<Entry>& entry) noexcept;
  Entries all() const;
  /// Becomes readable by `wake`, until `slept`.
  int native() const noexcept { return woken_.get(); }
  void wake() noexcept;
  void slept() noexcept;

 private:
  Descriptor woken_;
  mutable Mutex mutex_;
  Entries entries_ VMART_GUARDED_BY(mutex_);
};

/// The connection of one import; lives as long as the import does.
class FollowedImport {
 public:
  FollowedImport(std::shared_ptr<FollowedImports> imports, std::shared_ptr<ShareChannel> channel);
  /// Ends the connection.
  ~FollowedImport();
  FollowedImport(const FollowedImport&) = delete;
  FollowedImport& operator=(const FollowedImport&) = delete;

  /// The allocation follows from here on, and nobody else uses the channel any more.
  void begin(const std::shared_ptr<Allocation>& allocation) noexcept;

 private:
  const std::shared_ptr<FollowedImports> imports_;
  const std::shared_ptr<FollowedImports::Entry> entry_;
};

/// Lets imported memory follow the moves of its exporters, on a thread of its own: one move at a
/// time. Any thread.
class ImportFollower {
 public:
  /// Requires: all outlive it. Throws: Error{busy} if the system cannot start a thread.
  ImportFollower(Memory& memory, Migrator& migrator, const PlaceNames& places,
                 const ShareStop& stop);
  ~ImportFollower();
  ImportFollower(const ImportFollower&) = delete;
  ImportFollower& operator=(const ImportFollower&) = delete;

  /// Throws: std::bad_alloc.
  std::shared_ptr<FollowedImport> add(std::shared_ptr<ShareChannel> channel);

 private:
  void run() noexcept;
  void look();
  void serve(FollowedImports::Entry& entry);
  void follow(FollowedImports::Entry& entry);

  Memory& memory_;
  Migrator& migrator_;
  const ImportedChunks chunks_;
  const ShareStop& stop_;
  const std::shared_ptr<FollowedImports> imports_;
  ThreadedExecutor threads_;
  std::atomic<bool> ending_{false};
  std::unique_ptr<Task> task_;  // Last: it uses all of the above.
};

}  // namespace vma
