// Goal: memory holds what is copied to it, plain or mapped, and wrong handles and addresses are
// refused with the codes of CUDA.

#include "simcuda/simcuda_test.hpp"

#include <array>
#include <cstdint>
#include <numeric>
#include <unistd.h>
#include <vector>

namespace vma {
namespace {

class SimcudaMemory : public SimcudaTest {
 protected:
  static std::vector<std::uint32_t> counting(std::size_t count) {
    std::vector<std::uint32_t> words(count);
    std::iota(words.begin(), words.end(), 7u);
    return words;
  }
  static std::vector<std::uint32_t> read(CUdeviceptr begin, std::size_t count) {
    std::vector<std::uint32_t> words(count);
    EXPECT_EQ(cuMemcpyDtoH(words.data(), begin, count * sizeof words[0]), CUDA_SUCCESS);
    return words;
  }
  static CUmemAllocationProp properties(int gpu) {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu};
    return wanted;
  }
  static std::size_t page() {
    std::size_t bytes = 0;
    const CUmemAllocationProp on_gpu = properties(0);
    EXPECT_EQ(cuMemGetAllocationGranularity(&bytes, &on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
              CUDA_SUCCESS);
    return bytes;
  }
};

TEST_F(SimcudaMemory, KeepsWhatIsCopiedToIt) {
  const auto words = counting(5000);
  const std::size_t bytes = words.size() * sizeof words[0];
  const CUdeviceptr first = allocate(bytes), second = allocate(bytes);
  EXPECT_EQ(cuMemcpyHtoD(first, words.data(), bytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoD(second, first, bytes), CUDA_SUCCESS);
  EXPECT_EQ(read(second, words.size()), words);
  EXPECT_EQ(cuMemFree(first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(second), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, IsCopiedBetweenGpus) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  const auto words = counting(100);
  const CUdeviceptr here = allocate(400);
  EXPECT_EQ(cuMemcpyHtoD(here, words.data(), 400), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
  const CUdeviceptr there = allocate(400);
  EXPECT_EQ(cuMemcpyPeer(there, other, here, context(), 400), CUDA_SUCCESS);
  EXPECT_EQ(read(there, words.size()), words);
  int ordinal = -1;
  EXPECT_EQ(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there),
            CUDA_SUCCESS);
  EXPECT_EQ(ordinal, 1);
  EXPECT_EQ(cuMemFree(there), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(here), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, IsFilledWithValuesOfEachWidth) {
  const CUdeviceptr begin = allocate(1 << 20);
  EXPECT_EQ(cuMemsetD8(begin, 0x11, 1 << 20), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32(begin + 4, 0x12345678, 2), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD16(begin + 12, 0xabcd, 1), CUDA_SUCCESS);
  const std::vector<std::uint32_t> expected{0x11111111, 0x12345678, 0x12345678, 0x1111abcd};
  EXPECT_EQ(read(begin, 4), expected);
  EXPECT_EQ(cuMemsetD32(begin, 0xfeedbeef, (1 << 18) - 1), CUDA_SUCCESS);
  EXPECT_EQ(read(begin + (1 << 20) - 8, 2), (std::vector<std::uint32_t>{0xfeedbeef, 0x11111111}));
  EXPECT_EQ(cuMemFree(begin), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, HasRowsThatAreCopiedOneByOne) {
  CUdeviceptr begin = 0;
  std::size_t pitch = 0;
  ASSERT_EQ(cuMemAllocPitch(&begin, &pitch, 12, 4, 4), CUDA_SUCCESS);
  ASSERT_GE(pitch, 12u);
  const auto words = counting(12);
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = words.data();
  rows.srcPitch = 12;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = begin;
  rows.dstPitch = pitch;
  rows.WidthInBytes = 12;
  rows.Height = 4;
  EXPECT_EQ(cuMemcpy2D(&rows), CUDA_SUCCESS);
  EXPECT_EQ(read(begin + 3 * pitch, 3), (std::vector<std::uint32_t>{16, 17, 18}));
  EXPECT_EQ(cuMemFree(begin), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, IsMappedAndShownToTheCpu) {
  const CUmemAllocationProp on_gpu = properties(1);
  EXPECT_EQ(page(), std::size_t{2} << 20);
  CUdeviceptr begin = 0;
  CUmemGenericAllocationHandle chunk = 0;
  ASSERT_EQ(cuMemAddressReserve(&begin, page(), 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemCreate(&chunk, page(), &on_gpu, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(begin, page(), 0, chunk, 0), CUDA_SUCCESS);
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_EQ(cuMemSetAccess(begin, page(), &access, 1), CUDA_SUCCESS);
  const auto words = counting(64);
  EXPECT_EQ(cuMemcpyHtoD(begin + 4096, words.data(), 256), CUDA_SUCCESS);
  EXPECT_EQ(read(begin + 4096, 64), words);
  unsigned long long flags = 0;
  EXPECT_EQ(cuMemGetAccess(&flags, &access.location, begin), CUDA_SUCCESS);
  EXPECT_EQ(flags, std::uint64_t{CU_MEM_ACCESS_FLAGS_PROT_READWRITE});

  CUmemGenericAllocationHandle again = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(begin)), CUDA_SUCCESS);
  CUmemAllocationProp found{};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&found, again), CUDA_SUCCESS);
  EXPECT_EQ(found.location.id, 1);
  EXPECT_EQ(cuMemRelease(again), CUDA_SUCCESS);

  EXPECT_EQ(cuMemUnmap(begin, page()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(begin, words.data(), 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(chunk), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(begin, page()), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, OfHostNodesIsReadByTheCpu) {
  CUmemAllocationProp on_host = properties(0);
  on_host.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  on_host.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUdeviceptr begin = 0;
  CUmemGenericAllocationHandle chunk = 0, imported = 0;
  ASSERT_EQ(cuMemAddressReserve(&begin, page(), 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemCreate(&chunk, page(), &on_host, 0), CUDA_SUCCESS);
  int descriptor = -1;
  ASSERT_EQ(
      cuMemExportToShareableHandle(&descriptor, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_SUCCESS);
  ASSERT_EQ(cuMemImportFromShareableHandle(
                &imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  close(descriptor);
  ASSERT_EQ(cuMemMap(begin, page(), 0, imported, 0), CUDA_SUCCESS);
  std::array<CUmemAccessDesc, 2> access{};
  access[0].location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access[1].location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  for (CUmemAccessDesc& entry : access) entry.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_EQ(cuMemSetAccess(begin, page(), access.data(), access.size()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32(begin, 99, 16), CUDA_SUCCESS);
  EXPECT_EQ(reinterpret_cast<const std::uint32_t*>(begin)[15], 99u) << "as fills of host memory do";
  EXPECT_EQ(cuMemUnmap(begin, page()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(imported), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(chunk), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(begin, page()), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, OfAStreamIsFreedWhenTheStreamIsDoneWithIt) {
  const CUstream stream = new_stream();
  CUdeviceptr begin = 0;
  ASSERT_EQ(cuMemAllocAsync(&begin, 4096, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8Async(begin, 3, 4096, stream), CUDA_SUCCESS);
  std::array<unsigned char, 16> bytes{};
  EXPECT_EQ(cuMemcpyDtoHAsync(bytes.data(), begin + 4080, 16, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(begin, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(bytes[15], 3);
  EXPECT_EQ(cuMemcpyDtoH(bytes.data(), begin, 16), CUDA_ERROR_INVALID_VALUE) << "it is still there";
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, IsCountedAndDescribed) {
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  const CUdeviceptr begin = allocate(std::size_t{8} << 20);
  EXPECT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(before - after, std::size_t{8} << 20);
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(&start, &bytes, begin + 100), CUDA_SUCCESS);
  EXPECT_EQ(start, begin);
  EXPECT_EQ(bytes, std::size_t{8} << 20);
  CUcontext owner = nullptr;
  unsigned int type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, begin), CUDA_SUCCESS);
  EXPECT_EQ(owner, context());
  CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* out = &type;
  EXPECT_EQ(cuPointerGetAttributes(1, &which, &out, begin), CUDA_SUCCESS);
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(cuPointerGetAttributes(1, &which, &out, reinterpret_cast<CUdeviceptr>(&type)),
            CUDA_SUCCESS);
  EXPECT_EQ(type, 0u) << "pageable memory";
  EXPECT_EQ(cuMemFree(begin), CUDA_SUCCESS);
}

TEST_F(SimcudaMemory, WrongHandlesAndAddressesAreRefused) {
  EXPECT_EQ(cuMemFree(0x1234), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(0x1234), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(nullptr, 16), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr begin = 0;
  EXPECT_EQ(cuMemAlloc(&begin, std::size_t{1} << 40), CUDA_ERROR_OUT_OF_MEMORY);
  CUdevice device = 0;
  EXPECT_EQ(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x1234)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamSynchronize(reinterpret_cast<CUstream>(0x1234)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventQuery(reinterpret_cast<CUevent>(0x1234)), CUDA_ERROR_INVALID_HANDLE);
  CUipcMemHandle handle{};
  EXPECT_EQ(cuIpcGetMemHandle(&handle, 0x1234), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace vma
