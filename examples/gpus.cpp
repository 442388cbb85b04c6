#include "gpus.hpp"

// Shows how to write a kernel for real and simulated GPUs.
#include "../tests/support/test_kernels.hpp"

Gpus::Gpus(vma::Runtime& runtime) : runtime_(runtime) {
  for (const vma::Place at : runtime.places()) {
    if (at.kind != vma::Place::Kind::gpu) continue;
    // Results are at the GPU itself, because not every link between GPUs supports atomics.
    auto* results = static_cast<Word*>(runtime.alloc(2 * sizeof(Word), at));
    gpus_.push_back({at, runtime.make_stream(at), results});
  }
}

Gpus::~Gpus() {
  try {
    for (const Gpu& gpu : gpus_) {
      runtime_.destroy_stream(gpu.stream);
      runtime_.free(gpu.results);
    }
  } catch (const vma::Error&) {
    // The driver is broken. The runtime's destructor releases what it can.
  }
}

void Gpus::run(const Gpu& gpu, const vma::Kernel& kernel, const vma::KernelArguments& arguments) {
  runtime_.launch(gpu.stream, kernel, {1024}, {256}, arguments);
  runtime_.synchronize(gpu.stream);
}

void Gpus::fill(void* data, std::size_t bytes, Word seed) {
  run(gpus_.front(), vma::fill_kernel(),
      vma::KernelArguments::of(static_cast<Word*>(data), bytes / sizeof(Word), seed));
}

std::vector<Gpus::Finding> Gpus::read(const void* data, std::size_t bytes, Word seed) {
  const auto* words = static_cast<const Word*>(data);
  const Word count = bytes / sizeof(Word);
  std::vector<Finding> findings;
  for (const Gpu& gpu : gpus_) {
    Word results[2] = {0, 0};
    runtime_.write(gpu.results, std::as_bytes(std::span(results)));
    run(gpu, vma::sum_kernel(), vma::KernelArguments::of(words, count, gpu.results));
    run(gpu, vma::compare_kernel(), vma::KernelArguments::of(words, count, seed, gpu.results + 1));
    runtime_.read(gpu.results, std::as_writable_bytes(std::span(results)));
    findings.push_back({gpu.at, results[0], results[1]});
  }
  return findings;
}

std::string places(const std::vector<vma::Extent>& extents) {
  std::string text;
  for (const vma::Extent& extent : extents) {
    if (!text.empty()) text += " + ";
    if (extents.size() > 1) text += std::to_string(extent.bytes >> 20) + " MiB at ";
    text += to_string(extent.at);
  }
  return text;
}
