// Cost of `Pool::allocate` plus `Pool::deallocate` on a warm pool. The rival is cuda_pool_rival.

#include "bench/calls/pool_cases.hpp"
#include "bench/machine.hpp"

#include <cstdint>
#include <vector>

namespace vma {
namespace {

class VmartPool final : public PoolSubject {
 public:
  explicit VmartPool(int streams) {
    Runtime& runtime = shared_runtime();
    const Location gpu = runtime.locations().front();
    PoolOptions options;
    options.release_threshold = SIZE_MAX;
    pool_ = runtime.make_pool(gpu, options);
    for (int i = 0; i < streams; ++i) streams_.push_back(runtime.make_stream(gpu));
  }
  ~VmartPool() override {
    for (const Stream stream : streams_) shared_runtime().destroy_stream(stream);
    pool_.destroy();
  }

  void pairs(int allocates, int frees, std::uint64_t bytes, int times) override {
    const Stream from = streams_[static_cast<std::size_t>(allocates)];
    const Stream to = streams_[static_cast<std::size_t>(frees)];
    for (int i = 0; i < times; ++i) {
      pool_.deallocate(pool_.allocate(bytes, from), to);
    }
  }

 private:
  Pool pool_;
  std::vector<Stream> streams_;
};

void register_pool() {
  register_pool_cases("pool", [](int streams) { return std::make_unique<VmartPool>(streams); });
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  const int status = vma::run_benchmarks(argc, argv, vma::register_pool);
  vma::close_shared_runtime();
  return status;
}
