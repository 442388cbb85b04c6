#include "bench/rivals/cuda_calls.hpp"

#include "bench/harness/samples.hpp"

#include <dlfcn.h>

#include <cstdint>

namespace vma {
namespace {

template <typename Call>
void find(void* library, Call& call) {
  void* const symbol = dlsym(library, call.symbol);
  if (symbol == nullptr) throw Unavailable{std::string("the driver has no ") + call.symbol};
  call.function = reinterpret_cast<decltype(call.function)>(symbol);
}

RivalCalls load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Unavailable{"no libcuda.so.1 here"};
  RivalCalls calls;
#define ROW(call) find(library, calls.call);
  VMART_RIVAL_CALLS(ROW)
#undef ROW
  if (calls.cuInit.function(0) != CUDA_SUCCESS) throw Unavailable{"cuInit finds no GPU"};
  return calls;
}

RivalMachine open_machine() {
  RivalMachine machine;
  int count = 0;
  cuda().cuDeviceGetCount(&count);
  if (count == 0) throw Unavailable{"no GPU is visible"};
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    RivalMachine::Gpu gpu;
    cuda().cuDeviceGet(&gpu.device, ordinal);
    cuda().cuDevicePrimaryCtxRetain(&gpu.context, gpu.device);
    cuda().cuCtxSetCurrent(gpu.context);
    cuda().cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING);
    machine.gpus.push_back(gpu);
  }
  machine.use(0);
  return machine;
}

std::vector<std::size_t> checked_words(std::size_t bytes) {
  const std::size_t words = bytes / sizeof(unsigned);
  return {0, words / 2, words - 1};
}

}  // namespace

const RivalCalls& cuda() {
  static const RivalCalls calls = load();
  return calls;
}

const RivalMachine& rival_machine() {
  static const RivalMachine machine = open_machine();
  return machine;
}

void RivalMachine::use(int ordinal) const {
  cuda().cuCtxSetCurrent(gpus.at(static_cast<std::size_t>(ordinal)).context);
}

CUmemAllocationProp properties_at(int ordinal) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  const bool on_host = ordinal < 0;
  properties.location.type = on_host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = on_host ? 0 : ordinal;
  return properties;
}

void grant_to_all(CUdeviceptr begin, std::size_t bytes) {
  std::vector<CUmemAccessDesc> all;
  for (std::size_t ordinal = 0; ordinal < rival_machine().gpus.size(); ++ordinal) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = static_cast<int>(ordinal);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    all.push_back(access);
  }
  cuda().cuMemSetAccess(begin, bytes, all.data(), all.size());
}

RivalChunk::RivalChunk(int ordinal, std::size_t bytes) : bytes_(bytes) {
  const CUmemAllocationProp properties = properties_at(ordinal);
  CUmemGenericAllocationHandle handle = 0;
  cuda().cuMemAddressReserve(&begin_, bytes, 0, 0, 0);
  cuda().cuMemCreate(&handle, bytes, &properties, 0);
  cuda().cuMemMap(begin_, bytes, 0, handle, 0);
  cuda().cuMemRelease(handle);  // The mapping keeps the memory alive.
  grant_to_all(begin_, bytes);
}

RivalChunk::~RivalChunk() {
  cuda().cuMemUnmap.function(begin_, bytes_);
  cuda().cuMemAddressFree.function(begin_, bytes_);
}

void copy_and_wait(int by, CUdeviceptr target, CUdeviceptr source, std::size_t bytes) {
  const RivalMachine& machine = rival_machine();
  machine.use(by);
  const CUstream stream = machine.gpus.at(static_cast<std::size_t>(by)).stream;
  cuda().cuMemcpyAsync(target, source, bytes, stream);
  cuda().cuStreamSynchronize(stream);
}

void fill_words(CUdeviceptr begin, std::size_t bytes, unsigned value) {
  cuda().cuMemsetD32(begin, value, bytes / sizeof(unsigned));
  cuda().cuCtxSynchronize();
  expect_words(begin, bytes, value);
}

void expect_words(CUdeviceptr begin, std::size_t bytes, unsigned value) {
  for (const std::size_t word : checked_words(bytes)) {
    unsigned found = 0;
    cuda().cuMemcpy(reinterpret_cast<CUdeviceptr>(&found), begin + word * sizeof found,
                    sizeof found);
    if (found != value) throw std::runtime_error("the bytes are not those that were written");
  }
}

}  // namespace vma
