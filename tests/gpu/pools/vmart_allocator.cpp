#include "gpu/pools/stream_allocator.hpp"

#include <vma/error.hpp>

namespace vma {
namespace {

class VmartPool final : public PoolUnderTest {
 public:
  explicit VmartPool(v1::Pool pool) : pool(std::move(pool)) {}

  void* allocate(std::size_t bytes, Stream stream) override try {
    return pool.allocate(bytes, stream);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::out_of_memory) return nullptr;
    throw;
  }
  Stats stats() const override {
    const PoolStats now = pool.stats();
    return {now.reserved_bytes, now.used_bytes, now.reserved_high_bytes, now.used_high_bytes};
  }
  void reset_high_marks() override { pool.reset_high_marks(); }
  void set_release_threshold(std::size_t bytes) override { pool.set_release_threshold(bytes); }
  void set_reuse(const ReusePolicies& reuse) override { pool.set_reuse(reuse); }
  void trim(std::size_t keep_bytes) override { pool.trim(keep_bytes); }
  void allow_access(int) override {}  // Every GPU that reaches the memory may use it.
  bool destroy() override try {
    pool.destroy();
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid_argument) return false;
    throw;
  }

  v1::Pool pool;
};

class VmartAllocator final : public StreamAllocator {
 public:
  using StreamAllocator::StreamAllocator;

  Pool make_pool(int gpu, const PoolUnderTest::Terms& terms) override {
    PoolOptions options;
    options.release_threshold = terms.release_threshold;
    options.max_bytes = terms.max_bytes;
    options.reuse = terms.reuse;
    made_.push_back(runtime().make_pool(vma::gpu(gpu), options));
    return std::make_shared<VmartPool>(made_.back());
  }
  Pool default_pool(int gpu) override {
    return std::make_shared<VmartPool>(runtime().default_pool(vma::gpu(gpu)));
  }
  Pool current_pool(int gpu) override {
    return std::make_shared<VmartPool>(runtime().current_pool(vma::gpu(gpu)));
  }
  void set_current(const Pool& pool) override { runtime().set_current_pool(own(pool)); }
  bool same(const Pool& a, const Pool& b) const override { return own(a) == own(b); }
  void* allocate(std::size_t bytes, Stream stream) override {
    return runtime().alloc_async(bytes, stream);
  }
  void deallocate(void* pointer, Stream stream) override { runtime().free_async(pointer, stream); }
  void* allocate_plain(std::size_t bytes, int gpu) override {
    return runtime().alloc(bytes, vma::gpu(gpu));
  }
  void free(void* pointer) override { runtime().free(pointer); }
  void synchronize(Stream stream) override { runtime().synchronize(stream); }
  void order(Stream after, Stream before) override {
    StreamAllocator::order(after, before);
    for (const v1::Pool& pool : made_) pool.order(after, before);
  }
  void trim_graphs(int gpu) override { runtime().default_pool(vma::gpu(gpu)).trim(SIZE_MAX); }

 private:
  static const v1::Pool& own(const Pool& pool) { return static_cast<const VmartPool&>(*pool).pool; }
  std::vector<v1::Pool> made_;
};

}  // namespace

std::unique_ptr<StreamAllocator> vmart_allocator(std::unique_ptr<Driver> driver) {
  return std::make_unique<VmartAllocator>(std::move(driver));
}

}  // namespace vma
