// What a pool holds beyond the bytes that recorded programs ask for. The rival is
// cuda_pool_memory_rival; the traces say what the programs' own allocators held.

#include "bench/allocations/memory_cases.hpp"
#include "bench/machine.hpp"

#include <vector>

namespace vma {
namespace {

class VmartMemory final : public MemorySubject {
 public:
  explicit VmartMemory(int streams) {
    Runtime& runtime = shared_runtime();
    const Location gpu = runtime.locations().front();
    PoolOptions options;
    options.release_threshold = SIZE_MAX;
    pool_ = runtime.make_pool(gpu, options);
    for (int i = 0; i < streams; ++i) streams_.push_back(runtime.make_stream(gpu));
  }
  ~VmartMemory() override {
    for (const Stream stream : streams_) shared_runtime().destroy_stream(stream);
    pool_.destroy();
  }

  void* allocate(std::uint64_t bytes, int stream) override {
    return pool_.allocate(bytes, streams_[static_cast<std::size_t>(stream)]);
  }
  void free(void* block, int stream) override {
    pool_.deallocate(block, streams_[static_cast<std::size_t>(stream)]);
  }
  std::uint64_t held_peak_bytes() override { return pool_.stats().reserved_high_bytes; }
  std::uint64_t used_peak_bytes() override { return pool_.stats().used_high_bytes; }

 private:
  Pool pool_;
  std::vector<Stream> streams_;
};

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  const int status = vma::run_benchmarks(argc, argv, [] {
    vma::register_memory_cases(
        "pool_memory", [](int streams) { return std::make_unique<vma::VmartMemory>(streams); });
  });
  vma::close_shared_runtime();
  return status;
}
