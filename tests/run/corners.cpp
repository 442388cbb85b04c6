/* What the fuzzed programs (fuzz/) have found, once each. */
#include "program.hpp"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <thread>

/* Gives the other GPU work in its built-in stream, which is none for the streams of this one. */
static void work_on_other_gpu(CUcontext here) {
  static CUcontext there = NULL;
  static CUdeviceptr other = 0;
  if (there == NULL) CALL(cuDevicePrimaryCtxRetain, &there, 1);
  CALL(cuCtxSetCurrent, there);
  if (other == 0) CALL(cuMemAlloc, &other, 4096);
  CALL(cuMemsetD8Async, other, 1, 4096, NULL);
  CALL(cuCtxSetCurrent, here);
}

/* A stream that was waited for has no work until it is given some, also while its memory moves. */
void count_unready_streams(CUcontext here) {
  static unsigned unready = 0;
  for (int i = 0; i < 40; ++i) {
    CUstream stream = i % 3 == 0 ? NULL : streams[i % streams_count];
    CALL(cuMemsetD8Async, memory[i % buffers], 1, buffer_bytes, stream);
    if (i % 2 == 0) {
      CALL(cuStreamSynchronize, stream);
    } else {
      CALL(cuCtxSynchronize);
    }
    if (i % 4 < 2) work_on_other_gpu(here);
    for (int k = 0; k < 50; ++k) unready += driver.f_cuStreamQuery(stream) != CUDA_SUCCESS;
  }
  if (unready != 0) printf("%u queries were too early\n", unready);
}

/* The program's first allocation. */
void allocate_too_much(void) {
  CUdeviceptr pointer = 0;
  printf("far too large: %d\n", (int)driver.f_cuMemAlloc(&pointer, SIZE_MAX));
}

/* The program goes on, and its memory goes on moving. */
void misuse_stream(void) {
  CUstream stream = NULL;
  CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CALL(cuStreamDestroy, stream);
  printf("on no stream: %d", (int)driver.f_cuMemsetD8Async(memory[0], 1, 1, stream));
  printf(", destroyed twice: %d\n", (int)driver.f_cuStreamDestroy(stream));
}

/* What is allocated in a green context lives on with the primary context. */
void outlive_green_context(CUcontext primary) {
  CUdevResource whole, part;
  CUdevResourceDesc description = NULL;
  CUgreenCtx green = NULL;
  CUcontext context = NULL, owner = NULL;
  CUdeviceptr pointer = 0;
  unsigned count = 1;
  unsigned char first = 0;
  check(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  check(cuDevSmResourceSplitByCount(&part, &count, &whole, NULL, 0, 8), "split");
  check(cuDevResourceGenerateDesc(&description, &part, 1), "cuDevResourceGenerateDesc");
  check(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
  check(cuCtxFromGreenCtx(&context, green), "cuCtxFromGreenCtx");
  CALL(cuCtxSetCurrent, context);
  CALL(cuMemAlloc, &pointer, buffer_bytes);
  CALL(cuCtxSetCurrent, primary);
  CALL(cuMemsetD8, pointer, 5, buffer_bytes);
  check(cuGreenCtxDestroy(green), "cuGreenCtxDestroy");
  CALL(cuMemcpyDtoHAsync, &first, pointer, 1, NULL);
  CALL(cuStreamSynchronize, NULL);
  CALL(cuPointerGetAttribute, &owner, CU_POINTER_ATTRIBUTE_CONTEXT, pointer);
  printf("of a green context: %d, %s", first, owner == primary ? "the primary's" : "nobody's");
  printf(", freed: %d\n", (int)driver.f_cuMemFree(pointer));
}

static CUcontext at_the_end;

/* On a thread of its own: the exiting one may have no context any more. */
static void use_memory_at_the_end(void) {
  std::thread([] {
    CUdeviceptr pointer = 0;
    CUstream stream = NULL;
    size_t free_bytes = 0, total_bytes = 0;
    CALL(cuCtxSetCurrent, at_the_end);
    CALL(cuMemAlloc, &pointer, buffer_bytes);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemsetD8Async, pointer, 1, buffer_bytes, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuStreamDestroy, stream);
    CALL(cuMemFree, pointer);
    CALL(cuMemGetInfo, &free_bytes, &total_bytes);
    printf("used memory at the end\n");
  }).join();
}

/* The handler runs after those that the first allocation registers, and before the driver's. */
void allocate_when_ending(CUcontext context) {
  at_the_end = context;
  atexit(use_memory_at_the_end);
}

static void come_and_go(PFN_cuCtxCreate_v3020 create) {
  for (int i = 0; i < 40; ++i) {
    CUcontext context = NULL;
    CUdeviceptr pointer = 0;
    check(create(&context, 0, i % 2), "cuCtxCreate");
    CALL(cuMemAlloc, &pointer, buffer_bytes);
    for (int k = 0; k < 16; ++k) { /* So that the destruction takes a while. */
      CUstream stream = NULL;
      CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
      CALL(cuMemsetD8Async, pointer, 7, buffer_bytes, stream);
    }
    CALL(cuCtxDestroy, context);
  }
}

/* Memory is allocated and freed while another thread destroys contexts. */
void free_beside_contexts(CUcontext here) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  std::thread other(come_and_go, (PFN_cuCtxCreate_v3020)dlsym(library, "cuCtxCreate_v2"));
  CALL(cuCtxSetCurrent, here);
  for (int i = 0; i < 100; ++i) {
    CUdeviceptr pointers[8], blocks[8];
    for (CUdeviceptr &pointer : pointers) CALL(cuMemAlloc, &pointer, buffer_bytes);
    for (CUdeviceptr &block : blocks) CALL(cuMemAllocAsync, &block, buffer_bytes, streams[0]);
    for (CUdeviceptr block : blocks) CALL(cuMemFreeAsync, block, streams[0]);
    for (CUdeviceptr pointer : pointers) CALL(cuMemFree, pointer);
  }
  other.join();
  printf("freed beside contexts\n");
}

static std::atomic<bool> gone, outlived;

/* Stands for the handlers of CUDA's runtime, after which no call may return to another thread. */
static void take_runtime_away(void) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  gone = true;
  while (!outlived && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  printf(outlived ? "a call outlived the runtime\n" : "no call outlived the runtime\n");
}

/* Call it before the driver is used: handlers run in the reverse order. */
void expect_end_of_runtime(void) {
  atexit(take_runtime_away);
}

/* Until the process ends. From some moment on, there is no driver, so nothing looks at the codes.
 */
[[noreturn]] static void work_on(CUcontext here, CUdeviceptr own, bool all) {
  CUstream stream = NULL;
  static unsigned char host[4096];
  driver.f_cuCtxSetCurrent(here);
  driver.f_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (;;) {
    driver.f_cuMemsetD8Async(own, 1, buffer_bytes / 16, stream);
    if (all) {
      CUdeviceptr made = 0;
      CUstream other = NULL;
      driver.f_cuMemcpyDtoHAsync(host, own, sizeof host, stream);
      driver.f_cuMemsetD8(own, 1, 4096);
      if (driver.f_cuMemAlloc(&made, buffer_bytes) == CUDA_SUCCESS) driver.f_cuMemFree(made);
      if (driver.f_cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
        driver.f_cuMemsetD8Async(own, 1, 4096, other);
        driver.f_cuStreamDestroy(other);
      }
    }
    driver.f_cuStreamSynchronize(stream);
    if (gone) outlived = true;
  }
}

void start_daemons(CUcontext here) {
  for (int i = 0; i < 3; ++i) {
    CUdeviceptr own = 0;
    CALL(cuMemAlloc, &own, buffer_bytes);
    std::thread(work_on, here, own, i > 0 && is_work("daemons")).detach();
  }
}
