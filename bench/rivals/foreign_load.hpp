#pragma once

#include "bench/harness/samples.hpp"

#include <memory>

namespace vma {

/// Threads that use every GPU like a program that knows nothing about this library, on their own
/// memory. Per GPU: one loops over cudaMalloc and cudaFree, one over cudaDeviceSynchronize, and one
/// over work on the legacy stream. They run as long as this object exists.
///
/// Does nothing in a build without the CUDA runtime.
class ForeignLoad {
 public:
  /// If `gpus` is zero, there are no threads.
  explicit ForeignLoad(int gpus);
  ~ForeignLoad();
  ForeignLoad(const ForeignLoad&) = delete;
  ForeignLoad& operator=(const ForeignLoad&) = delete;

  /// Ends the threads and adds what they did to the sample, if there were any. Blocks: until they
  /// have ended. Throws: std::runtime_error with the first CUDA call that failed.
  void stop(Sample& sample);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vma
