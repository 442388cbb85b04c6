#pragma once

#include <vma/export.hpp>
#include <vma/place.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

/// The same as CUDA's stream type (`cudaStream_t`, `CUstream`), so that no CUDA header is needed.
struct CUstream_st;

namespace vma::inline v1 {

using Stream = CUstream_st*;

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// The arguments of one launch. Each takes 8 bytes, enough for a pointer, an integer or a double.
class KernelArguments {
 public:
  template <typename... Values>
  static KernelArguments of(const Values&... values) {
    KernelArguments arguments;
    (arguments.push(values), ...);
    return arguments;
  }

  template <typename Value>
  void push(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= sizeof(std::uint64_t));
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    words_.push_back(word);
  }

  /// Requires: the argument was pushed as a type of this size.
  template <typename Value>
  Value at(std::size_t index) const {
    Value value;
    std::memcpy(&value, &words_.at(index), sizeof value);
    return value;
  }

  std::span<const std::uint64_t> words() const noexcept { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

/// How the host body of a kernel accesses memory on a simulated machine. As on a GPU, each access
/// is checked for a mapping and for the device's access rights.
///
/// An access that a GPU would refuse throws out of the body; the launch then ends in a sticky
/// illegal-address error. Valid only during the call of the body.
class VMART_EXPORT DeviceView {
 public:
  virtual ~DeviceView() = default;

  /// The GPU that the kernel runs on.
  virtual int device() const = 0;
  virtual void read(const void* address, std::span<std::byte> out) = 0;
  virtual void write(void* address, std::span<const std::byte> bytes) = 0;
  /// Atomic among all kernels of the machine; returns the old value. 8 bytes, aligned.
  virtual std::uint64_t atomic_add(std::uint64_t* address, std::uint64_t value) = 0;

  template <typename Value>
  Value load(const Value* address) {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value;
    read(address, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <typename Value>
  void store(Value* address, const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    write(address, std::as_bytes(std::span(&value, 1)));
  }
};

struct LaunchShape {
  Dim3 grid, block;
};

/// One kernel for both kinds of machine: PTX for GPUs, a host function for simulated GPUs. One call
/// of the host body does the work of the whole grid.
struct Kernel {
  std::string ptx;
  std::string entry;
  std::function<void(DeviceView&, const KernelArguments&, LaunchShape)> host_body;
};

/// Creates a non-blocking stream in the GPU's primary context. Throws: Error{invalid_argument} for
/// a GPU that the runtime does not use. Blocks: in the driver.
VMART_EXPORT Stream make_stream(Place gpu);
/// Does not wait for the stream's work. Throws: Error{invalid_argument} for a stream that
/// `make_stream` did not create.
VMART_EXPORT void destroy_stream(Stream stream);
/// Enqueues the kernel. The first launch of a kernel on a GPU loads it, which blocks.
VMART_EXPORT void launch(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                         const KernelArguments& arguments);
/// Blocks until all enqueued work has finished. Throws: the error of that work.
VMART_EXPORT void synchronize(Stream stream);

template <typename... Values>
void launch(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block, const Values&... values)
  requires(sizeof...(Values) != 1 || !(std::is_same_v<Values, KernelArguments> && ...))
{
  launch(stream, kernel, grid, block, KernelArguments::of(values...));
}

}  // namespace vma::inline v1
