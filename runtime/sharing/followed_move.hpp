#pragma once

#include "base/clock.hpp"
#include "memory/move_claim.hpp"
#include "migrate/moves/mover.hpp"
#include "sharing/imported_chunks.hpp"
#include "sharing/share_channel.hpp"
#include "sharing/shared_decision.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace vma {

/// One move of imported memory, from its announcement by the exporter until this process has
/// answered that it has ended. A move that does not go on in time, or from which the exporter
/// disappears, is called off for all processes, or has been decided: so nothing here waits for
/// ever. One thread.
class FollowedMove final : public LedMove {
 public:
  /// All outlive it. `left` says whether this process has let go of the import. Throws:
  /// Error{peer_failure}.
  FollowedMove(Memory& memory, Mover& mover, const ImportedChunks& chunks, const ShareStop& stop,
               ShareChannel& channel, std::shared_ptr<Allocation> allocation,
               ShareMessage announcement, std::function<bool()> left);

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
  Mover& mover_;
  const ImportedChunks& imported_;
  const ShareStop& stop_;
  ShareChannel& channel_;
  const std::shared_ptr<Allocation> allocation_;
  ShareMessage offer_;
  const std::function<bool()> left_;
  SharedDecision decision_;
  SteadyClock clock_;
  TimePoint deadline_{0};
  std::vector<LedChunk> chunks_;
  std::chrono::nanoseconds stall_{0};
};

}  // namespace vma
