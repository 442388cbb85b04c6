#include "support/test_kernels.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vma {
namespace {

using Word = std::uint64_t;
using Body = std::function<void(DeviceView&, const KernelArguments&, LaunchShape)>;

constexpr const char* test_ptx =
#include "support/kernels/test_kernels.ptx.inc"
    ;

Kernel make(const char* entry, Body body) {
  return Kernel{test_ptx, entry, std::move(body)};
}

/// Calls `visit(block, first)` with copies of a range's words, a few thousand at a time.
template <typename Visit>
void for_blocks(DeviceView& memory, const Word* words, Word count, Visit visit) {
  constexpr Word block_words = 4096;
  std::vector<Word> block;
  for (Word first = 0; first < count; first += block_words) {
    block.resize(std::min(block_words, count - first));
    memory.read(words + first, std::as_writable_bytes(std::span(block)));
    visit(block, first);
  }
}

void fill_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  Word* words = arguments.at<Word*>(0);
  const Word count = arguments.at<Word>(1);
  const Word seed = arguments.at<Word>(2);
  constexpr Word block_words = 4096;
  std::vector<Word> block;
  for (Word first = 0; first < count; first += block_words) {
    block.resize(std::min(block_words, count - first));
    for (Word i = 0; i < block.size(); ++i) block[i] = seed + first + i;
    memory.write(words + first, std::as_bytes(std::span(block)));
  }
}

void add_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  Word* words = arguments.at<Word*>(0);
  const Word value = arguments.at<Word>(2);
  for_blocks(memory, words, arguments.at<Word>(1), [&](std::vector<Word>& block, Word first) {
    for (Word& word : block) word += value;
    memory.write(words + first, std::as_bytes(std::span(block)));
  });
}

void compare_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  const Word seed = arguments.at<Word>(2);
  Word wrong = 0;
  for_blocks(memory, arguments.at<const Word*>(0), arguments.at<Word>(1),
             [&](const std::vector<Word>& block, Word first) {
               for (Word i = 0; i < block.size(); ++i) wrong += block[i] != seed + first + i;
             });
  if (wrong != 0) memory.atomic_add(arguments.at<Word*>(3), wrong);
}

void sum_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  Word sum = 0;
  for_blocks(memory, arguments.at<const Word*>(0), arguments.at<Word>(1),
             [&](const std::vector<Word>& block, Word) {
               for (const Word word : block) sum += word;
             });
  if (sum != 0) memory.atomic_add(arguments.at<Word*>(2), sum);
}

void beat_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  const auto* stop = arguments.at<const Word*>(0);
  for (Word beat = 1; memory.load(stop) == 0; ++beat) {
    for_blocks(memory, arguments.at<Word*>(1), arguments.at<Word>(2),
               [&](std::vector<Word>& block, Word first) {
                 for (Word& word : block) word += 1;
                 memory.write(arguments.at<Word*>(1) + first, std::as_bytes(std::span(block)));
               });
    memory.store(arguments.at<Word*>(3), beat);
  }
}

void spin_body(DeviceView&, const KernelArguments& arguments, LaunchShape) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(arguments.at<Word>(0));
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

const Kernel& fill_kernel() {
  static const Kernel kernel = make("vmart_fill", fill_body);
  return kernel;
}

const Kernel& add_kernel() {
  static const Kernel kernel = make("vmart_add", add_body);
  return kernel;
}

const Kernel& compare_kernel() {
  static const Kernel kernel = make("vmart_compare", compare_body);
  return kernel;
}

const Kernel& sum_kernel() {
  static const Kernel kernel = make("vmart_sum", sum_body);
  return kernel;
}

const Kernel& atomic_add_kernel() {
  static const Kernel kernel = make(
      "vmart_atomic_add", [](DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
        memory.atomic_add(arguments.at<Word*>(0), arguments.at<Word>(1));
      });
  return kernel;
}

const Kernel& store_kernel() {
  static const Kernel kernel =
      make("vmart_store", [](DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
        memory.store(arguments.at<Word*>(0), arguments.at<Word>(1));
      });
  return kernel;
}

const Kernel& load_kernel() {
  static const Kernel kernel =
      make("vmart_load", [](DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
        memory.store(arguments.at<Word*>(1), memory.load(arguments.at<const Word*>(0)));
      });
  return kernel;
}

const Kernel& beat_kernel() {
  static const Kernel kernel = make("vmart_beat", beat_body);
  return kernel;
}

const Kernel& spin_kernel() {
  static const Kernel kernel = make("vmart_spin", spin_body);
  return kernel;
}

}  // namespace vma
