// CCCL containers on memory that moves: a `cuda::buffer` gets its memory from a pool through
// `cuda::mr`, kernels use it, and the pool moves to another GPU behind it. RMM's containers take
// the same resource.
#include <vma/memory_resource.hpp>

#include "gpus.hpp"

#include <fmt/format.h>

#include <cuda/buffer>

namespace {

constexpr std::size_t MiB = 1 << 20;
constexpr std::size_t words = 8 * MiB / sizeof(Gpus::Word);
constexpr Gpus::Word seed = 7;

using Resource = cuda::mr::any_resource<cuda::mr::device_accessible>;
using Buffer = cuda::buffer<Gpus::Word, cuda::mr::device_accessible>;

/// Prints where the words are. Returns true if every GPU reads what was written.
bool show(vma::Runtime& runtime, Gpus& gpus, const Buffer& buffer, const char* step) {
  Gpus::Word wrong = 0;
  for (const Gpus::Finding& found :
       gpus.read(buffer.data(), buffer.size() * sizeof(Gpus::Word), seed)) {
    wrong += found.wrong_words;
  }
  fmt::print("{:<24} {} at {}, {} GPUs read it, {} words wrong\n", step, fmt::ptr(buffer.data()),
             places(runtime.where(buffer.data())), gpus.count(), wrong);
  return wrong == 0;
}

/// Returns true if the resource refuses what does not fit, as containers expect it.
bool refuses(Resource resource, cuda::stream_ref stream) try {
  const Buffer large = cuda::make_buffer<Gpus::Word>(stream, resource, 8 * words, cuda::no_init);
  fmt::print("{} MiB fitted into a pool that has 32 MiB\n", 64);
  return false;
} catch (const std::bad_alloc& error) {
  fmt::print("{:<24} {}\n", "64 MiB more?", error.what());
  return true;
}

bool run() {
  vma::Runtime runtime;
  Gpus gpus(runtime);
  fmt::print("{}\n", runtime.description());
  vma::PoolOptions options;
  options.max_bytes = 32 * MiB;
  const vma::Pool pool = runtime.make_pool(vma::gpu(0), options);
  const vma::Stream made = runtime.make_stream(vma::gpu(0));
  const cuda::stream_ref stream(made);

  const Resource resource{vma::MemoryResource(pool)};
  bool right = true;
  {
    Buffer buffer = cuda::make_buffer<Gpus::Word>(stream, resource, words, cuda::no_init);
    gpus.fill(buffer.data(), buffer.size() * sizeof(Gpus::Word), seed);
    right = show(runtime, gpus, buffer, "a cuda::buffer") && right;
    for (const vma::Place to : runtime.places()) {
      runtime.migrate(pool, to);
      right = show(runtime, gpus, buffer, "the pool has moved") && right;
    }
    right = refuses(resource, stream) && right;
  }  // The buffer is freed in the order of its stream.
  fmt::print("{:<24} {} bytes in use\n", "the buffer is gone", pool.stats().used_bytes);
  right = pool.stats().used_bytes == 0 && right;
  runtime.destroy_stream(made);
  return right;
}

}  // namespace

int main() try { return run() ? 0 : 1; } catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
