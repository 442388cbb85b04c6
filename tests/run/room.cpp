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

void ask_for_room(CUcontext here) {
  CUmemGenericAllocationHandle handle = 0;
  if (is_work("elsewhere")) ask_for_room_elsewhere(here);
  if (is_work("hopeless")) printf("hopeless: %d\n", create(0, (size_t)1 << 40, &handle));
}
