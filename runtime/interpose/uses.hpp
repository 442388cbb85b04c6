#pragma once

#include "abi/run_table.hpp"
#include "interpose/work/memory_ranges.hpp"

#include <cuda.h>

#include <cstddef>
#include <span>
#include <vector>

namespace vma::interpose {

/// Whether anybody reads what the program uses: a policy, also one that was set later, a recording,
/// a decision log, or, once a limit was set, the choice of what to evict. If not, the functions
/// below do nothing, which saves each launch a fraction of a microsecond.
bool uses_are_read() noexcept;

/// The kernel was launched by the calling thread, with parameters in one of the two forms.
void note_launch(CUfunction function, void** parameters, void** extra) noexcept;
/// Work of the calling thread's context was enqueued that touches the range.
void note_use(const MemoryRange& range) noexcept;
/// Kernels were unloaded, whose handles may name others from now on.
void forget_kernels() noexcept;

/// Notes the memory among the arguments of a copy or a fill.
template <typename... Args>
void note_memory_among(Args... args) noexcept {
  if (!uses_are_read()) return;
  ranges_among([](const MemoryRange& range) { note_use(range); }, args...);
}

/// Notes that of a launch: these are a kernel, its grid, its blocks and their shared memory.
inline void note_memory_among(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, unsigned, CUstream, void** parameters,
                              void** extra = nullptr) noexcept {
  note_launch(function, parameters, extra);
}

// --- What work uses, found now and recorded later. Requires: vmart is loaded.

/// The GPU of the calling thread's context; negative without one.
int current_gpu() noexcept;
/// Finds those of a kernel. Writes as many as there is room for, and returns how many.
std::size_t find_launch_uses(CUfunction function, void** parameters, void** extra, int gpu,
                             std::span<vmart_use> out) noexcept;
/// Appends the parts of the range that are memory of vmart. If `gpu` is negative, each part counts
/// on the GPU on which the program allocated it. Throws: std::bad_alloc.
void append_uses(const MemoryRange& range, int gpu, std::vector<vmart_use>& out);
/// Records them. While a GPU is blind (`BlindLaunches`), what other GPUs use of the memory that was
/// allocated on it counts as used by that GPU: changes `uses` then.
void record_uses(std::span<vmart_use> uses) noexcept;

}  // namespace vma::interpose
