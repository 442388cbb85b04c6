#pragma once

#include <vma/runtime.hpp>

#include <cstdint>
#include <memory>

namespace vma {

/// Threads that use each GPU as a program does that knows nothing of the runtime, through the
/// driver's calls, in the contexts that the runtime's streams are of: one allocates and frees plain
/// memory, one synchronises the context, one loads and unloads kernels. On either kind of machine.
class SeamLoad {
 public:
  explicit SeamLoad(Runtime& runtime);
  ~SeamLoad();
  SeamLoad(const SeamLoad&) = delete;
  SeamLoad& operator=(const SeamLoad&) = delete;

  /// Ends the threads. Throws: what one of them ran into.
  void stop();

  std::uint64_t allocations() const noexcept;
  std::uint64_t synchronizes() const noexcept;
  std::uint64_t kernel_loads() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vma
