/* Requests for room on a GPU that is full, or that no GPU has. */
#include "program.hpp"

#include <stdio.h>

static CUmemAllocationProp properties_on(int device) {
  CUmemAllocationProp properties;
  memset(&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

static int create(int device, size_t size, CUmemGenericAllocationHandle *made) {
  const CUmemAllocationProp properties = properties_on(device);
  return (int)cuMemCreate(made, size, &properties, 0);
}

/* In the context of GPU 0, where GPU 1 is full of memory that can move. */
static void ask_for_room_elsewhere(CUcontext here) {
  enum { count = 5 };
  CUcontext there;
  CUdeviceptr taken[count], block = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemoryPool beside = NULL;
  CUmemPoolProps properties;
  CALL(cuDevicePrimaryCtxRetain, &there, 1);
  CALL(cuCtxSetCurrent, there);
  for (int i = 0; i < count; ++i) CALL(cuMemAlloc, &taken[i], buffer_bytes);
  CALL(cuCtxSetCurrent, here);
  const size_t size = buffer_bytes / 2; /* Below `--min 4MiB`. */
  printf("handle of the other GPU: %d\n", create(1, size, &handle));
  memset(&properties, 0, sizeof properties);
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 1;
  CALL(cuMemPoolCreate, &beside, &properties);
  for (int i = 0; i < 2; ++i) {
    printf("pool of the other GPU: %d\n",
           (int)driver.f_cuMemAllocFromPoolAsync(&block, size, beside, streams[0]));
  }
  for (int i = 0; i < count; ++i) CALL(cuMemFree, taken[i]);
}

static void tell(const char *when) {
  size_t free_bytes = 0, total_bytes = 0;
  CALL(cuMemGetInfo, &free_bytes, &total_bytes);
  printf("told %s: %zu\n", when, free_bytes >> 20);
}

/* What the program is told of a block that outlives its pool. */
static void ask_after_destruction(size_t size) {
  CUdeviceptr block = 0;
  CUmemoryPool brief = NULL;
  CUmemPoolProps properties;
  memset(&properties, 0, sizeof properties);
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CALL(cuMemPoolCreate, &brief, &properties);
  CALL(cuMemAllocFromPoolAsync, &block, size, brief, streams[0]);
  CALL(cuMemPoolDestroy, brief);
  tell("pool destroyed");
  CALL(cuMemFreeAsync, block, streams[0]);
  CALL(cuStreamSynchronize, streams[0]);
}

/* What the program is told if memory is divided, free in a pool, and not mapped. */
static void ask_what_is_free(void) {
  const size_t large = (size_t)64 << 20;
  unsigned long long most = ~0ULL;
  CUdeviceptr divided = 0, block = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemoryPool standard = NULL;
  CALL(cuDeviceGetDefaultMemPool, &standard, 0);
  CALL(cuMemPoolSetAttribute, standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most);
  tell("before");
  CALL(cuMemAlloc, &divided, 8 * large);
  tell("divided");
  CALL(cuMemAllocAsync, &block, large, streams[0]);
  CALL(cuMemFreeAsync, block, streams[0]);
  CALL(cuStreamSynchronize, streams[0]);
  tell("free in a pool");
  check((CUresult)create(0, large, &handle), "cuMemCreate");
  tell("not mapped");
  check(cuMemRelease(handle), "cuMemRelease");
  CALL(cuMemPoolTrimTo, standard, 0);
  CALL(cuMemFree, divided);
  ask_after_destruction(large);
  tell("after");
}

/* Arrays are the driver's. Memory that was freed before must not be why there is no room for them.
 */
static void fill_with_arrays(void) {
  enum { most = 512 };
  static CUarray arrays[most];
  const size_t large = (size_t)256 << 20;
  const CUDA_ARRAY_DESCRIPTOR shape = {1 << 20, 64, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUdeviceptr freed[2];
  int count = 0;
  for (CUdeviceptr &one : freed) CALL(cuMemAlloc, &one, large);
  for (const CUdeviceptr one : freed) CALL(cuMemFree, one);
  while (count < most && cuArrayCreate(&arrays[count], &shape) == CUDA_SUCCESS) ++count;
  printf("full after %d\n", count);
  while (count > 0) check(cuArrayDestroy(arrays[--count]), "cuArrayDestroy");
}

void ask_for_room(CUcontext here) {
  CUmemGenericAllocationHandle handle = 0;
  if (is_work("told")) ask_what_is_free();
  if (is_work("arrays")) fill_with_arrays();
  if (is_work("elsewhere")) ask_for_room_elsewhere(here);
  if (is_work("hopeless")) printf("hopeless: %d\n", create(0, (size_t)1 << 40, &handle));
}
