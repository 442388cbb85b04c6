#pragma once

#include "base/executor.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>

namespace vma {

/// A GPU that reads its own memory on an attached stream from construction on, round after round: a
/// thread launches so much and waits for it, as programs do. One owner; destruction waits for the
/// round that runs.
class BusyGpu {
 public:
  struct Work {
    std::size_t bytes = 0;  ///< That each launch reads, several times.
    Time round{0};          ///< Of so many launches as take this long; zero: of one.
  };

  /// Requires: the runtime and the executor outlive it. Throws: Error. Blocks: for some launches.
  BusyGpu(Runtime& runtime, Location gpu, const Work& work, Executor& executor);
  ~BusyGpu();  // Gives back what it took; what cannot be given back is logged.
  BusyGpu(const BusyGpu&) = delete;
  BusyGpu& operator=(const BusyGpu&) = delete;

  /// Throws: what reading failed with.
  void require_works() const;

 private:
  void read();
  int launches_for(Time round);
  void work() noexcept;
  void give_back() noexcept;

  Runtime& runtime_;
  const std::size_t bytes_;
  int launches_ = 1;  // Constant once the thread runs.
  Stream stream_ = nullptr;
  std::byte* data_ = nullptr;
  std::optional<AttachedStream> attached_;
  std::atomic<bool> stop_{false}, ended_{false};
  std::exception_ptr error_;  // Written before `ended_` is set.
  std::unique_ptr<Task> task_;
};

}  // namespace vma
