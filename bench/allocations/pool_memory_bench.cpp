// What a pool holds beyond the bytes that recorded programs ask for. The rival is
// cuda_pool_memory_rival; the traces say what the programs' own allocators held.

#include "bench/allocations/memory_cases.hpp"
#include "bench/harness/machine.hpp"

namespace vma {
namespace {

class VmartMemory final : public MemorySubject {
 public:
  explicit VmartMemory(int streams) : kept_(streams) {}

  void* allocate(std::uint64_t bytes, int stream) override {
    return kept_.pool().allocate(bytes, kept_.stream(stream));
  }
  void free(void* block, int stream) override {
    kept_.pool().deallocate(block, kept_.stream(stream));
  }
  std::uint64_t held_peak_bytes() override { return kept_.pool().stats().reserved_high_bytes; }
  std::uint64_t used_peak_bytes() override { return kept_.pool().stats().used_high_bytes; }

 private:
  KeptPool kept_;
};

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_on_shared_runtime(argc, argv, [] {
    vma::register_memory_cases(
        "pool_memory", [](int streams) { return std::make_unique<vma::VmartMemory>(streams); });
  });
}
