#pragma once

#include <vma/device.hpp>

#include <cstdint>

namespace vma {

/// Where the launches of a writer add: of `places`, `stride_words` apart, each launch takes the
/// next `touches` and adds one to a word somewhere in the first `place_words` of each. Words are
/// std::uint64_t.
struct WritePlaces {
  std::uint64_t* begin = nullptr;
  std::uint64_t places = 1;
  std::uint64_t stride_words = 1;
  std::uint64_t place_words = 1;
  std::uint64_t touches = 0;
};

/// One launch: it runs for at least `nanoseconds`, on GPUs only, and then stores `number`, which is
/// not 0, in `*progress`.
const Kernel& writer_kernel();
LaunchShape writer_shape(const WritePlaces& places);
KernelArguments writer_arguments(const WritePlaces& places, std::uint64_t nanoseconds,
                                 std::uint64_t* progress, std::uint64_t number);

}  // namespace vma
