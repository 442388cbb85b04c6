/* Copies between two GPUs in the legacy stream, which CUDA orders with the work of both; and a GPU
 * that is used later than another. */
#include "program.hpp"

#include <stdio.h>
#include <string.h>

enum { copy_ways = 6 };
static const unsigned rows = 64;

/* In the legacy stream. */
static void copy_between(int way, CUdeviceptr target, CUcontext to, CUdeviceptr source,
                         CUcontext from) {
  CUDA_MEMCPY2D pitched;
  switch (way) {
    case 0: CALL(cuMemcpyAsync, target, source, buffer_bytes, NULL); return;
    case 1: CALL(cuMemcpyAsync, target, source, buffer_bytes, CU_STREAM_LEGACY); return;
    case 2: CALL(cuMemcpyPeerAsync, target, to, source, from, buffer_bytes, NULL); return;
    case 3: CALL(cuMemcpyDtoD, target, source, buffer_bytes); return;
    case 4: CALL(cuMemcpy, target, source, buffer_bytes); return;
    default: break;
  }
  memset(&pitched, 0, sizeof pitched);
  pitched.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  pitched.srcDevice = source;
  pitched.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  pitched.dstDevice = target;
  pitched.srcPitch = pitched.dstPitch = pitched.WidthInBytes = buffer_bytes / rows;
  pitched.Height = rows;
  CALL(cuMemcpy2DAsync, &pitched, NULL);
}

/* In the legacy stream: work that takes much longer than a copy, and then the value. */
static void fill_late(CUdeviceptr buffer, unsigned char value) {
  for (int i = 0; i < 64; ++i) {
    if (i % 8 == 0) CALL(cuLaunchHostFunc, NULL, work_a_while, NULL);
    CALL(cuMemsetD8Async, buffer, (unsigned char)(value + 100), buffer_bytes, NULL);
  }
  CALL(cuMemsetD8Async, buffer, value, buffer_bytes, NULL);
}

/* Each byte of the buffer of the current GPU has this value, once the legacy stream is done. */
static void expect(CUdeviceptr buffer, unsigned char value, int way, const char *what) {
  size_t differ = 0;
  CALL(cuMemcpyDtoHAsync, bytes, buffer, buffer_bytes, NULL);
  CALL(cuStreamSynchronize, NULL);
  for (size_t k = 0; k < buffer_bytes; ++k) differ += bytes[k] != value;
  printf("way %d: %s %s\n", way, what, differ == 0 ? "in order" : "too early");
}

void copy_between_gpus(CUcontext here) {
  CUcontext there;
  CUdeviceptr source, target;
  CALL(cuMemAlloc, &source, buffer_bytes);
  CALL(cuDevicePrimaryCtxRetain, &there, 1);
  CALL(cuCtxSetCurrent, there);
  CALL(cuMemAlloc, &target, buffer_bytes);
  for (int way = 0; way < copy_ways; ++way) {
    const unsigned char value = (unsigned char)(10 * way + 1);
    CALL(cuCtxSetCurrent, here);
    fill_late(source, value);
    CALL(cuCtxSetCurrent, there);
    copy_between(way, target, there, source, here);
    expect(target, value, way, "read the source");

    fill_late(target, 0);
    copy_between(way, target, there, source, here);
    CALL(cuCtxSetCurrent, here);
    CALL(cuMemsetD8Async, source, (unsigned char)(value + 1), buffer_bytes, NULL);
    CALL(cuStreamSynchronize, NULL);
    CALL(cuCtxSetCurrent, there);
    expect(target, value, way, "left the source");
  }
  CALL(cuMemFree, target);
  CALL(cuCtxSetCurrent, here);
  CALL(cuMemFree, source);
}

/* As CUDA's runtime does it: the context of the other GPU is current before it is active. By then
 * the program has memory. */
CUcontext enter_inactive_context(void) {
  CUcontext there;
  CUdeviceptr first;
  CALL(cuMemAlloc, &first, buffer_bytes);
  CALL(cuDevicePrimaryCtxRetain, &there, 1);
  CALL(cuCtxSetCurrent, there);
  CALL(cuDevicePrimaryCtxRetain, &there, 1);
  return there;
}
