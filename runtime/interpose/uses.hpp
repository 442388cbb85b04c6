#pragma once

#include "abi/run_table.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_streams.hpp"
#include "interpose/work/launches.hpp"
#include "interpose/work/memory_ranges.hpp"

#include <cuda.h>

#include <cstddef>
#include <span>
#include <vector>

namespace vma::interpose {

/// What the work of the program uses, for whoever reads that: a policy, also one that was set
/// later, a recording, a decision log, or, once a limit was set, the choice of what to evict. Any
/// thread.
class Uses {
 public:
  Uses(const ProgramStreams& streams, ProgramMemory& memory) noexcept
      : streams_(streams), memory_(memory) {}

  /// Whether anybody reads them. If not, `note` does nothing, which saves each launch a fraction of
  /// a microsecond.
  bool are_read() const noexcept;

  /// The calling thread has launched the kernel, with parameters in one of the two forms.
  void note_launch(CUfunction function, void** parameters, void** extra) noexcept;
  /// Work with these arguments was enqueued in the calling thread's context: notes the memory among
  /// those of a copy or a fill.
  template <typename... Args>
  void note(Args... args) noexcept {
    if (are_read()) ranges_among([this](const MemoryRange& range) { note_range(range); }, args...);
  }
  /// The same for a launch: these are a kernel, its grid, its blocks and their shared memory.
  void note(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
            unsigned, CUstream, void** parameters, void** extra = nullptr) noexcept {
    note_launch(function, parameters, extra);
  }
  /// Makes a call that unloads kernels, whose handles may name others from then on. What is known
  /// of kernels is dropped before it, and after it, since other threads may have noted launches
  /// from before meanwhile.
  template <typename Call>
  static auto unloading(Call&& call) noexcept {
    forget_kernels();
    const auto result = call();
    forget_kernels();
    return result;
  }

  /// What a launch shows beyond that is not seen.
  static constexpr std::size_t launch_uses_max = 256;

  // What work uses, found now and recorded later. Requires: vmart is loaded.

  /// Finds those of a kernel. Writes as many as there is room for, and returns how many.
  static std::size_t find_of_launch(CUfunction function, void** parameters, void** extra, int gpu,
                                    std::span<vmart_use> out) noexcept;
  /// Appends the parts of the range that are memory of vmart. If `gpu` is negative, each part
  /// counts on the GPU on which the program allocated it. Throws: std::bad_alloc.
  void append(const MemoryRange& range, int gpu, std::vector<vmart_use>& out) const;
  /// Records them. While a GPU is blind (`BlindLaunches`), what other GPUs use of the memory that
  /// was allocated on it counts as used by that GPU: changes `uses` then.
  void record(std::span<vmart_use> uses) noexcept;
  BlindLaunches& launches() noexcept { return launches_; }

 private:
  static void forget_kernels() noexcept;
  template <typename Take>
  void for_each(const MemoryRange& range, int gpu, Take&& take) const;
  int using_gpu() const noexcept;
  bool are_wanted_meanwhile() const noexcept;
  void note_range(const MemoryRange& range) noexcept;

  const ProgramStreams& streams_;
  ProgramMemory& memory_;
  BlindLaunches launches_;
};

/// The GPU of the calling thread's context; negative without one.
int current_gpu() noexcept;

}  // namespace vma::interpose
