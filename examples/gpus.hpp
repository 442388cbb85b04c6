#pragma once

#include <vma/vma.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Used by several examples: every GPU of a runtime, each with a stream, and what its kernels see
/// through a pointer. Word i of the data is seed + i.
class Gpus {
 public:
  using Word = std::uint64_t;

  /// What one GPU's kernels found: the sum of all words, and the number of wrong ones.
  struct Finding {
    vma::Place gpu;
    Word sum = 0, wrong_words = 0;
  };

  explicit Gpus(vma::Runtime& runtime);
  ~Gpus();
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  std::size_t count() const { return gpus_.size(); }

  /// Writes the words, with a kernel on the first GPU.
  void fill(void* data, std::size_t bytes, Word seed);
  /// Reads the words, with a kernel on every GPU.
  std::vector<Finding> read(const void* data, std::size_t bytes, Word seed);

 private:
  struct Gpu {
    vma::Place at;
    vma::Stream stream;
    Word* results;
  };

  void run(const Gpu& gpu, const vma::Kernel& kernel, const vma::KernelArguments& arguments);

  vma::Runtime& runtime_;
  std::vector<Gpu> gpus_;
};

/// Such as "gpu(0)", or "64 MiB at gpu(0) + 64 MiB at host(0)".
std::string places(const std::vector<vma::Extent>& extents);
