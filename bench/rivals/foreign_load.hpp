#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// Threads that use every GPU like a program that knows nothing about this library, on their own
/// memory. Per GPU: one loops over cudaMalloc and cudaFree, one over cudaDeviceSynchronize, and one
/// over work on the legacy stream. They run as long as this object exists.
class ForeignLoad {
 public:
  /// If `gpus` is zero, there are no threads.
  explicit ForeignLoad(int gpus);
  ~ForeignLoad();
  ForeignLoad(const ForeignLoad&) = delete;
  ForeignLoad& operator=(const ForeignLoad&) = delete;

  /// Ends the threads. Blocks: until they have ended.
  void stop();

  std::uint64_t mallocs() const;
  std::uint64_t synchronizes() const;
  std::uint64_t fills() const;
  /// The first CUDA call that failed and its error; empty if none did.
  std::string error() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vma
