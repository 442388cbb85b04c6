#pragma once

#include <vma/device.hpp>

namespace vma {

// Kernels that tests and benches run on both kinds of machines. Words are std::uint64_t; kernels
// over a range work with any grid.

/// (words, count, seed): word i becomes seed + i.
const Kernel& fill_kernel();
/// (words, count, value): adds the value to every word, not atomically.
const Kernel& add_kernel();
/// (words, count, seed, mismatches): counts the words that are not seed + i into *mismatches.
const Kernel& compare_kernel();
/// (words, count, sum): adds every word to *sum.
const Kernel& sum_kernel();
/// (word, value): adds the value atomically.
const Kernel& atomic_add_kernel();
/// (word, value): one thread stores one word.
const Kernel& store_kernel();
/// (word, out): one thread copies one word.
const Kernel& load_kernel();
/// (stop, words, count, beats): adds one to each word and counts in `beats` how often it has, until
/// `stop` is not zero. One block.
const Kernel& beat_kernel();
/// (nanoseconds): runs for that long; on a simulated machine, by the processor's clock.
const Kernel& spin_kernel();

}  // namespace vma
