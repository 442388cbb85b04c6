#pragma once

#include <vma/device.hpp>

#include <cstdint>

namespace vma {

/// The words that the launches of a writer increment. There are `places` places, `stride_words`
/// apart; each launch takes the next `touches` of them and adds one to a word among the first
/// `place_words` of each. Words are std::uint64_t.
struct WritePlaces {
  std::uint64_t* begin = nullptr;
  std::uint64_t places = 1;
  std::uint64_t stride_words = 1;
  std::uint64_t place_words = 1;
  std::uint64_t touches = 0;
};

/// One launch. On GPUs it runs for at least `nanoseconds`; then it stores `number`, which is not 0,
/// in `*progress`.
const Kernel& writer_kernel();
LaunchShape writer_shape(const WritePlaces& places);
KernelArguments writer_arguments(const WritePlaces& places, std::uint64_t nanoseconds,
                                 std::uint64_t* progress, std::uint64_t number);

}  // namespace vma
