#include "support/read_kernel.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace vma {
namespace {

using Word = std::uint64_t;

constexpr const char* ptx =
#include "support/kernels/read_range.ptx.inc"
    ;

void read_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  constexpr Word block_words = 4096;
  const Word* const begin = arguments.at<const Word*>(0);
  const Word count = 2 * arguments.at<Word>(1), passes = arguments.at<Word>(2);
  std::vector<Word> block(std::min(block_words, count));
  Word sum = 0;
  for (Word pass = 0; pass < passes; ++pass) {
    for (Word first = 0; first < count; first += block_words) {
      const std::span<Word> part(block.data(), std::min(block_words, count - first));
      memory.read(begin + first, std::as_writable_bytes(part));
      for (const Word word : part) sum += word;
    }
  }
  memory.atomic_add(arguments.at<Word*>(3), sum);
}

}  // namespace

const Kernel& read_kernel() {
  static const Kernel kernel{ptx, "vmart_read", read_body};
  return kernel;
}

LaunchShape read_shape() {
  return {Dim3{1056}, Dim3{256}};  // Eight blocks per multiprocessor of an H200.
}

KernelArguments read_arguments(const void* begin, std::uint64_t bytes, std::uint64_t passes,
                               std::uint64_t* sum) {
  return KernelArguments::of(begin, bytes / (2 * sizeof(Word)), passes, sum);
}

}  // namespace vma
