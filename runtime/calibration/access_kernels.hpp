#pragma once

#include <vma/device.hpp>
#include <vma/runtime.hpp>

#include <cstdint>

namespace vma {

/// What the kernel loads at once.
inline constexpr std::uint64_t access_vector_bytes = 16;

/// Reads a range repeatedly. Arguments: const void* data, number of 16-byte vectors, passes, a word
/// that no sum equals, sink. Any grid. Practically never writes the sink.
const Kernel& access_read_kernel();
/// Launches it with 512 threads per block. Requires: `bytes` is a multiple of 16. Inline, since who
/// has the kernels alone has no runtime.
inline void launch_read(Runtime& runtime, Stream stream, unsigned blocks, const void* data,
                        std::uint64_t bytes, std::uint64_t passes) {
  constexpr unsigned threads = 512;
  constexpr std::uint64_t no_sum = ~std::uint64_t{0};
  runtime.launch(stream, access_read_kernel(), {blocks}, {threads},
                 KernelArguments::of(data, bytes / access_vector_bytes, passes, no_sum, data));
}
/// Blocks that keep a GPU's links busy.
unsigned read_blocks(int multiprocessors);

/// Follows a chain through memory, one load after the other. Arguments: const words* data, steps,
/// sink. Each word of the chain is the index of the next one. One thread.
const Kernel& access_chase_kernel();

}  // namespace vma
