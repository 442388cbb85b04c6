#include "support/twin_kernels.hpp"

#include "migrate/copying/kernels/digest_math.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace vma {
namespace {

using Word = std::uint64_t;

constexpr const char* twin_ptx =
#include "support/kernels/twin_kernels.ptx.inc"
    ;

void twin_add_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  Word* const array = arguments.at<Word*>(0);
  Word* const twin = arguments.at<Word*>(1);
  const Word part = arguments.at<Word>(3), parts = arguments.at<Word>(4);
  const Word lines_of_part = arguments.at<Word>(2) / parts;
  const Word seed = arguments.at<Word>(5), adds = arguments.at<Word>(6);
  for (Word i = 0; i < adds; ++i) {
    const Word random = digest_math::splitmix(seed + i * 0x9E3779B97F4A7C15ull);
    const Word line = (random % lines_of_part) * parts + part;
    const Word word = line * twin_line_words + (random >> 32) % (twin_line_words - 1);
    const Word value = digest_math::splitmix(random) * arguments.at<Word>(7);
    memory.atomic_add(array + word, value);
    memory.atomic_add(twin + word, value);
  }
}

void twin_compare_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  const Word words = arguments.at<Word>(2);
  std::array<Word, 512> ours, theirs;
  Word different = 0;
  for (Word first = 0; first < words; first += ours.size()) {
    const std::size_t count = std::min<Word>(ours.size(), words - first);
    memory.read(arguments.at<const Word*>(0) + first,
                std::as_writable_bytes(std::span(ours).first(count)));
    memory.read(arguments.at<const Word*>(1) + first,
                std::as_writable_bytes(std::span(theirs).first(count)));
    for (std::size_t i = 0; i < count; ++i) different += ours[i] != theirs[i];
  }
  if (different != 0) memory.atomic_add(arguments.at<Word*>(3), different);
}

}  // namespace

const Kernel& twin_add_kernel() {
  static const Kernel kernel{twin_ptx, "vmart_twin_add", twin_add_body};
  return kernel;
}

KernelArguments twin_add_arguments(const TwinSpan& span, const TwinAdds& adds) {
  return KernelArguments::of(span.array, span.twin, span.lines, span.part, span.parts, adds.seed,
                             adds.count, adds.factor);
}

const Kernel& twin_settle_nothing_kernel() {
  static const Kernel kernel{twin_ptx, "vmart_twin_settle_nothing",
                             [](DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
                               memory.store(arguments.at<Word*>(4), Word{0});
                             }};
  return kernel;
}

const Kernel& twin_compare_kernel() {
  static const Kernel kernel{twin_ptx, "vmart_twin_compare", twin_compare_body};
  return kernel;
}

}  // namespace vma
