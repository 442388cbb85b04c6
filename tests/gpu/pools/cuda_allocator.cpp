#include "gpu/pools/stream_allocator.hpp"

#ifdef VMART_HAS_CUDA
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

// The headers' macros turn a base name into the versioned symbol; this yields the name after that
// expansion.
#define VMART_SPELL(name) #name
// clang-format off
#define VMART_POOL_CALLS(ROW)                                                                 \
  ROW(cuInit) ROW(cuDeviceGet) ROW(cuDevicePrimaryCtxRetain) ROW(cuDevicePrimaryCtxRelease)   \
  ROW(cuCtxSetCurrent) ROW(cuDeviceGetDefaultMemPool) ROW(cuDeviceGetMemPool)                 \
  ROW(cuDeviceSetMemPool) ROW(cuDeviceGraphMemTrim) ROW(cuMemPoolCreate)                      \
  ROW(cuMemPoolDestroy) ROW(cuMemPoolSetAttribute) ROW(cuMemPoolGetAttribute)                 \
  ROW(cuMemPoolSetAccess) ROW(cuMemPoolTrimTo) ROW(cuMemAllocAsync)                           \
  ROW(cuMemAllocFromPoolAsync) ROW(cuMemFreeAsync) ROW(cuMemAlloc) ROW(cuMemFree)             \
  ROW(cuStreamSynchronize)
// clang-format on

namespace vma {
namespace {

struct PoolCalls {
#define ROW(call) decltype(&::call) call = nullptr;
  VMART_POOL_CALLS(ROW)
#undef ROW
  std::string missing;  // Why the calls cannot be used; empty if they can.
};

const PoolCalls& calls() {
  static const PoolCalls found = [] {
    PoolCalls calls;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      calls.missing = "no libcuda.so.1";
      return calls;
    }
#define ROW(call)                                                                         \
  calls.call = reinterpret_cast<decltype(calls.call)>(dlsym(library, VMART_SPELL(call))); \
  if (calls.call == nullptr) calls.missing = std::string("the driver has no ") + VMART_SPELL(call);
    VMART_POOL_CALLS(ROW)
#undef ROW
    if (calls.missing.empty() && calls.cuInit(0) != CUDA_SUCCESS) calls.missing = "no GPU";
    return calls;
  }();
  return found;
}

void require(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  throw std::runtime_error(fmt::format("{}: CUresult {}", call, static_cast<int>(result)));
}
#define VMART_CUDA(call, ...) require(calls().call(__VA_ARGS__), #call)

CUstream native(Stream stream) {
  return reinterpret_cast<CUstream>(stream);
}
CUdeviceptr native(void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

/// Null: out of memory.
void* block_of(CUresult result, CUdeviceptr block, const char* call) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  require(result, call);
  return reinterpret_cast<void*>(block);
}

class CudaPool final : public PoolUnderTest {
 public:
  CudaPool(CUmemoryPool pool, int gpu) : pool(pool), gpu(gpu) {}
  CudaPool(int gpu, const Terms& terms) : gpu(gpu), made_(true) {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu};
    properties.maxSize = terms.max_bytes;
    VMART_CUDA(cuMemPoolCreate, &pool, &properties);
    set_release_threshold(terms.release_threshold);
    set_reuse(terms.reuse);
  }
  ~CudaPool() override {
    if (made_) calls().cuMemPoolDestroy(pool);
  }

  void* allocate(std::size_t bytes, Stream stream) override {
    CUdeviceptr block = 0;
    const CUresult result = calls().cuMemAllocFromPoolAsync(&block, bytes, pool, native(stream));
    return block_of(result, block, "cuMemAllocFromPoolAsync");
  }
  Stats stats() const override {
    return {value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
            value(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), value(CU_MEMPOOL_ATTR_USED_MEM_HIGH)};
  }
  void reset_high_marks() override {
    set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, std::uint64_t{0});
    set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, std::uint64_t{0});
  }
  void set_release_threshold(std::size_t bytes) override {
    set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, std::uint64_t{bytes});
  }
  void set_reuse(const ReusePolicies& reuse) override {
    set(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, int{reuse.event_dependencies});
    set(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, int{reuse.opportunistic});
    set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, int{reuse.internal_dependencies});
  }
  void trim(std::size_t keep_bytes) override { VMART_CUDA(cuMemPoolTrimTo, pool, keep_bytes); }
  void allow_access(int other) override {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, other},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    VMART_CUDA(cuMemPoolSetAccess, pool, &access, 1);
  }
  bool destroy() override {
    if (calls().cuMemPoolDestroy(pool) != CUDA_SUCCESS) return false;
    made_ = false;
    return true;
  }

  CUmemoryPool pool = nullptr;
  const int gpu;

 private:
  template <typename Value>
  void set(CUmemPool_attribute attribute, Value value) {
    VMART_CUDA(cuMemPoolSetAttribute, pool, attribute, &value);
  }
  std::size_t value(CUmemPool_attribute attribute) const {
    cuuint64_t bytes = 0;
    VMART_CUDA(cuMemPoolGetAttribute, pool, attribute, &bytes);
    return bytes;
  }

  bool made_ = false;
};

class CudaAllocator final : public StreamAllocator {
 public:
  explicit CudaAllocator(std::unique_ptr<Driver> driver) : StreamAllocator(std::move(driver)) {
    for (int gpu = 0; gpu < gpus(); ++gpu) {
      devices_.emplace_back();
      VMART_CUDA(cuDeviceGet, &devices_.back().device, gpu);
      VMART_CUDA(cuDevicePrimaryCtxRetain, &devices_.back().context, devices_.back().device);
    }
    use(0);
  }
  ~CudaAllocator() override {
    for (int gpu = 0; gpu < gpus(); ++gpu) {
      calls().cuDeviceSetMemPool(device(gpu), own(default_pool(gpu)).pool);
    }
    calls().cuCtxSetCurrent(nullptr);
    for (const Device& each : devices_) calls().cuDevicePrimaryCtxRelease(each.device);
  }

  Pool make_pool(int gpu, const PoolUnderTest::Terms& terms) override {
    return std::make_shared<CudaPool>(gpu, terms);
  }
  Pool default_pool(int gpu) override {
    CUmemoryPool pool = nullptr;
    VMART_CUDA(cuDeviceGetDefaultMemPool, &pool, device(gpu));
    return std::make_shared<CudaPool>(pool, gpu);
  }
  Pool current_pool(int gpu) override {
    CUmemoryPool pool = nullptr;
    VMART_CUDA(cuDeviceGetMemPool, &pool, device(gpu));
    return std::make_shared<CudaPool>(pool, gpu);
  }
  void set_current(const Pool& pool) override {
    VMART_CUDA(cuDeviceSetMemPool, device(own(pool).gpu), own(pool).pool);
  }
  bool same(const Pool& a, const Pool& b) const override { return own(a).pool == own(b).pool; }
  void* allocate(std::size_t bytes, Stream stream) override {
    CUdeviceptr block = 0;
    const CUresult result = calls().cuMemAllocAsync(&block, bytes, native(stream));
    return block_of(result, block, "cuMemAllocAsync");
  }
  void deallocate(void* pointer, Stream stream) override {
    VMART_CUDA(cuMemFreeAsync, native(pointer), native(stream));
  }
  void* allocate_plain(std::size_t bytes, int gpu) override {
    use(gpu);
    CUdeviceptr memory = 0;
    VMART_CUDA(cuMemAlloc, &memory, bytes);
    return reinterpret_cast<void*>(memory);
  }
  void free(void* pointer) override { VMART_CUDA(cuMemFree, native(pointer)); }
  void synchronize(Stream stream) override { VMART_CUDA(cuStreamSynchronize, native(stream)); }
  void enter_thread() override { use(0); }
  void trim_graphs(int gpu) override { VMART_CUDA(cuDeviceGraphMemTrim, device(gpu)); }

 private:
  struct Device {
    CUdevice device = 0;
    CUcontext context = nullptr;
  };

  static const CudaPool& own(const Pool& pool) { return static_cast<const CudaPool&>(*pool); }
  CUdevice device(int gpu) const { return devices_.at(static_cast<std::size_t>(gpu)).device; }
  void use(int gpu) {
    VMART_CUDA(cuCtxSetCurrent, devices_.at(static_cast<std::size_t>(gpu)).context);
  }

  std::vector<Device> devices_;
};

}  // namespace

std::unique_ptr<StreamAllocator> cuda_allocator(std::unique_ptr<Driver> driver) {
  return std::make_unique<CudaAllocator>(std::move(driver));
}

std::string why_no_cuda_pools() {
  return calls().missing;
}

}  // namespace vma

#else  // VMART_HAS_CUDA

namespace vma {

std::unique_ptr<StreamAllocator> cuda_allocator(std::unique_ptr<Driver>) {
  return nullptr;
}

std::string why_no_cuda_pools() {
  return "built without the CUDA driver";
}

}  // namespace vma

#endif
