#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// Threads that use every GPU as a program does that knows nothing of this library, on memory of
/// their own: one loops over cudaMalloc and cudaFree, one over cudaDeviceSynchronize, one over work
/// on the legacy stream, on each GPU. They begin with the object and end with it.
class ForeignLoad {
 public:
  /// `gpus` zero makes no thread.
  explicit ForeignLoad(int gpus);
  ~ForeignLoad();
  ForeignLoad(const ForeignLoad&) = delete;
  ForeignLoad& operator=(const ForeignLoad&) = delete;

  /// Ends the threads. Blocks until they have.
  void stop();

  std::uint64_t mallocs() const;
  std::uint64_t synchronizes() const;
  std::uint64_t fills() const;
  /// The first CUDA call that failed, and how; empty if none did.
  std::string error() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vma
