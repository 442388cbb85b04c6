/* What the fuzzed programs (fuzz/) have found, once each. */
#include "program.hpp"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <thread>

/* A stream that was waited for has no work until it is given some, also while its memory moves. */
void count_unready_streams(void) {
  static unsigned unready = 0;
  for (int i = 0; i < 40; ++i) {
    CUstream stream = i % 3 == 0 ? NULL : streams[i % streams_count];
    CALL(cuMemsetD8Async, memory[i % buffers], 1, buffer_bytes, stream);
    if (i % 2 == 0) {
      CALL(cuStreamSynchronize, stream);
    } else {
      CALL(cuCtxSynchronize);
    }
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
    CUdeviceptr pointers[8];
    for (CUdeviceptr &pointer : pointers) CALL(cuMemAlloc, &pointer, buffer_bytes);
    for (CUdeviceptr pointer : pointers) CALL(cuMemFree, pointer);
  }
  other.join();
  printf("freed beside contexts\n");
}
