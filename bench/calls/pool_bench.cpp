// Cost of `Pool::allocate` plus `Pool::deallocate` on a warm pool. The rival is cuda_pool_rival.

#include "bench/calls/pool_cases.hpp"
#include "bench/harness/machine.hpp"

#include <cstdint>

namespace vma {
namespace {

class VmartPool final : public PoolSubject {
 public:
  explicit VmartPool(int streams) : kept_(streams) {}

  void pairs(int allocates, int frees, std::uint64_t bytes, int times) override {
    const Stream from = kept_.stream(allocates);
    const Stream to = kept_.stream(frees);
    for (int i = 0; i < times; ++i) {
      kept_.pool().deallocate(kept_.pool().allocate(bytes, from), to);
    }
  }

 private:
  KeptPool kept_;
};

void register_pool() {
  register_pool_cases("pool", [](int streams) { return std::make_unique<VmartPool>(streams); });
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_on_shared_runtime(argc, argv, vma::register_pool);
}
