#pragma once

#include <vma/runtime.hpp>

#include <cstdint>
#include <memory>

namespace vma {

/// Threads that use each GPU like a program that knows nothing about the runtime, with driver calls
/// in the contexts of the runtime's streams: one allocates and frees plain memory, one synchronises
/// the context, and one loads and unloads kernels. Works on real and simulated machines.
class SeamLoad {
 public:
  explicit SeamLoad(Runtime& runtime);
  ~SeamLoad();
  SeamLoad(const SeamLoad&) = delete;
  SeamLoad& operator=(const SeamLoad&) = delete;

  /// Ends the threads. Throws: the error of a thread, if one failed.
  void stop();

  std::uint64_t allocations() const noexcept;
  std::uint64_t synchronizes() const noexcept;
  std::uint64_t kernel_loads() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vma
