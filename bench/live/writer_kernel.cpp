#include "bench/live/writer_kernel.hpp"

#include "migrate/copying/kernels/digest_math.hpp"

#include <algorithm>

namespace vma {
namespace {

using Word = std::uint64_t;

constexpr const char* ptx =
#include "bench/live/kernels/writer.ptx.inc"
    ;

void write_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  Word* const begin = arguments.at<Word*>(0);
  const Word places = arguments.at<Word>(1), stride_words = arguments.at<Word>(2);
  const Word place_words = arguments.at<Word>(3), touches = arguments.at<Word>(4);
  const Word number = arguments.at<Word>(7);
  for (Word index = 0; index < touches; ++index) {
    const Word count = number * touches + index;
    const Word word = digest_math::splitmix(count * 0x9E3779B97F4A7C15ull) % place_words;
    memory.atomic_add(begin + count % places * stride_words + word, 1);
  }
  memory.store(arguments.at<Word*>(6), number);
}

}  // namespace

const Kernel& writer_kernel() {
  static const Kernel kernel{ptx, "vmart_bench_write", write_body};
  return kernel;
}

LaunchShape writer_shape(const WritePlaces& places) {
  constexpr std::uint64_t block_max = 256;
  const std::uint64_t threads = std::max<std::uint64_t>(1, places.touches);
  const std::uint64_t block = std::min(threads, block_max);
  const std::uint64_t grid = (threads + block - 1) / block;
  return {Dim3{static_cast<unsigned>(grid)}, Dim3{static_cast<unsigned>(block)}};
}

KernelArguments writer_arguments(const WritePlaces& places, std::uint64_t nanoseconds,
                                 std::uint64_t* progress, std::uint64_t number) {
  return KernelArguments::of(places.begin, places.places, places.stride_words, places.place_words,
                             places.touches, nanoseconds, progress, number);
}

}  // namespace vma
