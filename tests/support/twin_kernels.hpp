#pragma once

#include <vma/device.hpp>

#include <cstdint>

namespace vma {

/// The words that `twin_add_kernel` adds to. Words are std::uint64_t, and 64 of them are a line.
/// The lines are divided into `parts` equal, interleaved parts, of which a kernel uses one. The
/// last word of each line is left to others, such as the CPU.
struct TwinSpan {
  std::uint64_t* array = nullptr;
  std::uint64_t* twin = nullptr;
  std::uint64_t lines = 0;  ///< At least `parts`.
  std::uint64_t part = 0;
  std::uint64_t parts = 1;
};

constexpr std::uint64_t twin_line_words = 64;

/// What one launch adds: values determined by the seed, each times `factor`, at places determined
/// by the seed. The same adds with factor -1 restore the old words.
struct TwinAdds {
  std::uint64_t seed = 0;
  std::uint64_t count = 0;
  std::uint64_t factor = 1;
};

/// Adds the same values, atomically, to the same words of an array and of its twin. Any grid.
const Kernel& twin_add_kernel();
KernelArguments twin_add_arguments(const TwinSpan& span, const TwinAdds& adds);

/// (array, twin, words, different): adds the number of differing words to *different.
const Kernel& twin_compare_kernel();

/// Takes the arguments of a settling kernel and reports that nothing changed.
const Kernel& twin_settle_nothing_kernel();

}  // namespace vma
