/* Memory from pools, which is allocated and freed in the order of streams. */
#include "program.hpp"

#include <dlfcn.h>
#include <stdio.h>

CUmemoryPool pool;
static CUmemoryPool standard;

static CUmemoryPool create_pool(int handle_types) {
  CUmemoryPool created = NULL;
  CUmemPoolProps properties;
  memset(&properties, 0, sizeof properties);
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.handleTypes = (CUmemAllocationHandleType)handle_types;
  CALL(cuMemPoolCreate, &created, &properties);
  return created;
}

void open_pools(void) {
  unsigned long long most = ~0ULL;
  if (!is_work("pools") && !is_work("kept") && !is_work("exported") && !is_work("reset")) return;
  CALL(cuDeviceGetDefaultMemPool, &standard, 0);
  pool = create_pool(is_work("exported") ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0);
  if (!is_work("kept")) return;
  CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most);
  CALL(cuMemPoolSetAttribute, standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most);
}

CUdeviceptr allocate_buffer(void) {
  CUdeviceptr pointer = 0;
  if (pool == NULL) {
    CALL(cuMemAlloc, &pointer, buffer_bytes);
  } else {
    CALL(cuMemAllocFromPoolAsync, &pointer, buffer_bytes, pool, streams[0]);
    CALL(cuStreamSynchronize, streams[0]);
  }
  return pointer;
}

void free_buffer(CUdeviceptr pointer) {
  if (pool == NULL) {
    CALL(cuMemFree, pointer);
  } else {
    CALL(cuMemFreeAsync, pointer, NULL);
  }
}

void fill_by_pools(unsigned char value) {
  for (int i = 0; i < buffers; ++i) {
    CUstream stream = streams[i % 2];
    CUdeviceptr block = 0;
    if (i % 3 == 0 && !is_work("exported")) {
      CALL(cuMemAllocAsync, &block, buffer_bytes, stream);
    } else {
      CALL(cuMemAllocFromPoolAsync, &block, buffer_bytes, pool, stream);
    }
    CALL(cuMemsetD8Async, block, (unsigned char)(value + i), buffer_bytes, stream);
    CALL(cuLaunchHostFunc, stream, work_a_while, NULL);
    CALL(cuMemcpyDtoDAsync, memory[i], block, buffer_bytes, stream);
    CALL(cuMemFreeAsync, block, stream);
  }
  CALL(cuCtxSynchronize);
}

static unsigned long long value_of(CUmemPool_attribute attribute) {
  unsigned long long value = 0;
  CALL(cuMemPoolGetAttribute, pool, attribute, &value);
  return value;
}

static CUmemoryPool pool_of(CUdeviceptr pointer) {
  CUmemoryPool found = NULL;
  CALL(cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer + 5);
  return found;
}

static const char *yes(int what) {
  return what ? "yes" : "no";
}

static void count_pool(void) {
  CUdeviceptr large = 0;
  CUdeviceptr tiny = 0;
  unsigned long long zero = 0;
  CALL(cuCtxSynchronize);
  CALL(cuMemPoolTrimTo, pool, 0);
  const unsigned long long used = value_of(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  const unsigned long long reserved = value_of(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  CALL(cuMemAllocFromPoolAsync, &large, 16 * buffer_bytes, pool, streams[0]);
  CALL(cuMemAllocFromPoolAsync, &tiny, 4096, pool, streams[0]);
  const unsigned long long more = value_of(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  printf("used %s, reserved %s, of the pool %s %s\n", yes(more >= used + 16 * buffer_bytes + 4096),
         yes(value_of(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= more), yes(pool_of(large) == pool),
         yes(pool_of(tiny) == pool));
  CALL(cuStreamSynchronize, streams[0]);
  CALL(cuMemFreeAsync, large, streams[1]); /* In another stream. */
  CALL(cuMemFreeAsync, tiny, streams[0]);
  printf("freed %s, high %s", yes(value_of(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == used),
         yes(value_of(CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= more));
  CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero);
  printf(" then %s and %s\n", yes(value_of(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == used),
         yes(value_of(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= more));
  CALL(cuStreamSynchronize, streams[1]);
  if (is_work("kept")) CALL(cuMemPoolTrimTo, pool, 0);
  printf("given back %s\n", yes(value_of(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) <= reserved));
  printf("freed again: %d\n", (int)driver.f_cuMemFreeAsync(large, streams[1]));
}

static void end_pool(void) {
  CUdeviceptr block = 0;
  CUmemoryPool ended = create_pool(0);
  CALL(cuDeviceSetMemPool, 0, ended);
  CALL(cuMemAllocAsync, &block, buffer_bytes, streams[0]);
  printf("of the current pool %s\n", yes(pool_of(block) == ended));
  CALL(cuMemPoolDestroy, ended);
  printf("from a pool that is gone: %d\n",
         (int)driver.f_cuMemAllocFromPoolAsync(&block, buffer_bytes, ended, streams[0]));
  CALL(cuMemsetD8Async, block, 3, buffer_bytes, streams[0]);
  CALL(cuStreamSynchronize, streams[0]);
  CALL(cuMemFree, block);
  CALL(cuMemAllocAsync, &block, buffer_bytes, streams[0]);
  printf("of the default pool %s\n", yes(pool_of(block) == standard));
  CALL(cuMemFreeAsync, block, streams[0]);
  printf("default pool: %d\n", (int)driver.f_cuMemPoolDestroy(standard));
  for (int bits = 40; bits < 50; bits += 6) {
    printf("too large: %d\n",
           (int)driver.f_cuMemAllocFromPoolAsync(&block, (size_t)1 << bits, pool, streams[0]));
  }
}

/* In a capture, memory is the graph's. */
static void capture_pool(void) {
  CUdeviceptr block = 0;
  CUgraph graph = NULL;
  CALL(cuStreamBeginCapture, streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  printf("in a capture: allocated %d,",
         (int)driver.f_cuMemAllocAsync(&block, buffer_bytes, streams[0]));
  printf(" freed %d,", (int)driver.f_cuMemFreeAsync(memory[0], streams[0]));
  printf(" ended %d\n", (int)driver.f_cuStreamEndCapture(streams[0], &graph));
  if (graph != NULL) CALL(cuGraphDestroy, graph);
}

/* A free on the legacy stream comes after what blocking streams do before, and before what they do
 * later. */
static void free_between_blocking_streams(void) {
  CUstream first = NULL;
  CUstream second = NULL;
  CUdeviceptr block = 0;
  CALL(cuStreamCreate, &first, CU_STREAM_DEFAULT);
  CALL(cuStreamCreate, &second, CU_STREAM_DEFAULT);
  CALL(cuMemAllocFromPoolAsync, &block, buffer_bytes, pool, first);
  CALL(cuMemsetD8Async, block, 1, buffer_bytes, first);
  for (int i = 0; i < 20; ++i) CALL(cuLaunchHostFunc, first, work_a_while, NULL);
  CALL(cuMemcpyDtoDAsync, memory[0], block, buffer_bytes, first);
  CALL(cuMemFreeAsync, block, CU_STREAM_LEGACY);
  CALL(cuMemAllocFromPoolAsync, &block, buffer_bytes, pool, CU_STREAM_LEGACY);
  CALL(cuMemsetD8Async, block, 2, buffer_bytes, second);
  CALL(cuMemFreeAsync, block, second);
  CALL(cuStreamDestroy, second);
  CALL(cuCtxSynchronize);
  CALL(cuStreamDestroy, first);
  CALL(cuMemcpyDtoHAsync, bytes, memory[0], buffer_bytes, streams[0]);
  CALL(cuStreamSynchronize, streams[0]);
  printf("between blocking streams: %d\n", bytes[buffer_bytes / 2]);
}

/* So that pools that keep what they have do not grow, however late a free is complete. */
static void keep_enough(void) {
  CUdeviceptr blocks[2 * buffers];
  for (int i = 0; i < 2 * buffers; ++i) {
    CALL(cuMemAllocFromPoolAsync, &blocks[i], buffer_bytes, i % 2 == 0 ? pool : standard,
         streams[0]);
  }
  for (int i = 0; i < 2 * buffers; ++i) CALL(cuMemFreeAsync, blocks[i], streams[0]);
  CALL(cuCtxSynchronize);
}

void use_pools_once(void) {
  if (pool == NULL || is_work("exported")) return;
  CUcontext context = (CUcontext)1;
  CALL(cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT, memory[0]);
  printf("without a context %s\n", yes(context == NULL));
  count_pool();
  end_pool();
  capture_pool();
  free_between_blocking_streams();
  keep_enough();
}

void close_pools(void) {
  CALL(cuCtxSynchronize);
  if (!is_work("kept")) return;
  CALL(cuMemPoolTrimTo, pool, 0);
  CALL(cuMemPoolTrimTo, standard, 0);
}

int reset_gpu(void) {
  /* The simulated driver has no such call. */
  typedef CUresult (*Reset)(CUdevice);
  const Reset reset = (Reset)dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxReset_v2");
  unsigned long long reserved = 0;
  CALL(cuMemPoolTrimTo, pool, 0);
  printf("reset: %d\n", reset != NULL ? (int)reset(0) : -1);
  CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  printf("reserved after the reset: %llu\n", reserved);
  return 0;
}

static void wait_until_set(void *flag) {
  while (__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE) == 0) {
  }
}

int free_before_work(void) {
  static int freed = 0;
  CALL(cuLaunchHostFunc, streams[0], wait_until_set, &freed);
  CALL(cuMemsetD8Async, memory[0], 1, buffer_bytes, streams[0]);
  CALL(cuMemFreeAsync, memory[0], streams[0]);
  __atomic_store_n(&freed, 1, __ATOMIC_RELEASE);
  CALL(cuCtxSynchronize);
  printf("freed before its work\n");
  return 0;
}
