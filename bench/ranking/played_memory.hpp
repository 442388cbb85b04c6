#pragma once

#include <vma/runtime.hpp>

#include <atomic>
#include <cstdint>

namespace vma {

/// The memory of one object of a trace. The object and each access that has not ended hold it; the
/// last holder frees it. Any thread.
class PlayedMemory {
 public:
  /// Holds the memory once, for the object. Takes ownership of `pointer`, which `alloc` returned.
  PlayedMemory(Runtime& runtime, void* pointer, std::uint64_t bytes)
      : runtime_(runtime), pointer_(static_cast<std::byte*>(pointer)), bytes_(bytes) {}

  std::byte* begin() const noexcept { return pointer_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  void hold() noexcept { ++holds_; }
  /// Requires: everything launched for this hold has ended. The last call frees the memory in order
  /// with the work of `stream`, and does not wait. Throws: Error.
  void let_go(Stream stream) {
    if (--holds_ == 0) runtime_.free_async(pointer_, stream);
  }

 private:
  Runtime& runtime_;
  std::byte* const pointer_;
  const std::uint64_t bytes_;
  std::atomic<std::uint64_t> holds_{1};
};

}  // namespace vma
