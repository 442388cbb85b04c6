// A kernel of your own on memory that moves. docs/guide/compile_and_link.md has the commands of
// nvcc and CMake. On a simulated machine there is no GPU for the kernel, and only the memory moves.
#include <vma/vma.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

namespace {

__global__ void increment(unsigned* words, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) ++words[i];
}

/// Whether each word has this value.
bool all_are(const void* memory, std::size_t count, unsigned value) {
  std::vector<unsigned> words(count);
  vma::read(memory, std::as_writable_bytes(std::span(words)));
  for (const unsigned word : words) {
    if (word != value) return false;
  }
  return true;
}

}  // namespace

int main() try {
  constexpr std::size_t count = std::size_t{1} << 20;
  const bool simulated = vma::runtime().description().starts_with("simulated");
  auto* const words = static_cast<unsigned*>(vma::alloc(count * sizeof(unsigned), vma::gpu(0)));
  const std::vector<unsigned> zeros(count, 0);
  vma::write(words, std::as_bytes(std::span(zeros)));

  unsigned expected = 0;
  for (const vma::Place to : {vma::host(0), vma::gpu(0)}) {
    if (!simulated) {
      increment<<<count / 256, 256>>>(words, count);
      if (cudaDeviceSynchronize() != cudaSuccess) return 1;
      ++expected;
    }
    vma::migrate(words, to);  // The pointer stays.
    std::printf("at %s: %s\n", to_string(to).c_str(),
                all_are(words, count, expected) ? "as expected" : "WRONG");
  }
  vma::free(words);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
