#pragma once

#include "base/executor.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

namespace vma {

/// A GPU that reads its own memory on an attached stream, round after round, from construction on:
/// a thread launches a batch of work and waits for it, as programs do. One owner; destruction waits
/// for the current round.
class BusyGpu {
 public:
  struct Work {
    std::size_t bytes = 0;  ///< Read by each launch, several times.
    /// Duration of one round. Long rounds read more often per launch rather than using many
    /// launches. Zero: one launch.
    Time round{0};
  };

  /// Requires: the runtime and the executor outlive it. Throws: Error; {unsupported} if no round
  /// takes that long. Blocks: for some launches, and some long rounds.
  BusyGpu(Runtime& runtime, Place gpu, const Work& work, Executor& executor);
  ~BusyGpu();  // Releases its resources; logs failures.
  BusyGpu(const BusyGpu&) = delete;
  BusyGpu& operator=(const BusyGpu&) = delete;

  /// Throws: the error that stopped the reading thread, if there was one.
  void require_works() const;

 private:
  void read();
  Time read_time();
  Time shortest_read_time(Time enough);
  void shape_rounds(Time round);
  void lengthen_launches(Time round, double times);
  void work() noexcept;
  void give_back() noexcept;

  Runtime& runtime_;
  const std::size_t bytes_;
  int launches_ = 1;          // Per round. Constant once the thread runs.
  std::uint64_t passes_ = 4;  // Per launch. Constant once the thread runs.
  Stream stream_ = nullptr;
  std::byte* data_ = nullptr;
  std::optional<AttachedStream> attached_;
  std::atomic<bool> stop_{false}, ended_{false};
  std::exception_ptr error_;  // Written before `ended_` is set.
  std::unique_ptr<Task> task_;
};

}  // namespace vma
