#pragma once

/* What the parts of the program share. */

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string.h>

/* What it calls of the driver: the name that it is called by, the symbol, and its type. */
#define CALLS(ROW)                                                                              \
  ROW(cuInit, "cuInit", PFN_cuInit_v2000)                                                       \
  ROW(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", PFN_cuDevicePrimaryCtxRetain_v7000) \
  ROW(cuCtxSetCurrent, "cuCtxSetCurrent", PFN_cuCtxSetCurrent_v4000)                            \
  ROW(cuStreamCreate, "cuStreamCreate", PFN_cuStreamCreate_v2000)                               \
  ROW(cuStreamSynchronize, "cuStreamSynchronize", PFN_cuStreamSynchronize_v2000)                \
  ROW(cuStreamQuery, "cuStreamQuery", PFN_cuStreamQuery_v2000)                                  \
  ROW(cuStreamDestroy, "cuStreamDestroy_v2", PFN_cuStreamDestroy_v4000)                         \
  ROW(cuStreamBeginCapture, "cuStreamBeginCapture_v2", PFN_cuStreamBeginCapture_v10010)         \
  ROW(cuStreamEndCapture, "cuStreamEndCapture", PFN_cuStreamEndCapture_v10000)                  \
  ROW(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",                               \
      PFN_cuGraphInstantiateWithFlags_v11040)                                                   \
  ROW(cuGraphLaunch, "cuGraphLaunch", PFN_cuGraphLaunch_v10000)                                 \
  ROW(cuGraphExecDestroy, "cuGraphExecDestroy", PFN_cuGraphExecDestroy_v10000)                  \
  ROW(cuGraphDestroy, "cuGraphDestroy", PFN_cuGraphDestroy_v10000)                              \
  ROW(cuLaunchHostFunc, "cuLaunchHostFunc", PFN_cuLaunchHostFunc_v10000)                        \
  ROW(cuCtxSynchronize, "cuCtxSynchronize", PFN_cuCtxSynchronize_v2000)                         \
  ROW(cuMemsetD8, "cuMemsetD8_v2", PFN_cuMemsetD8_v3020)                                        \
  ROW(cuMemAllocPitch, "cuMemAllocPitch_v2", PFN_cuMemAllocPitch_v3020)                         \
  ROW(cuCtxDestroy, "cuCtxDestroy_v2", PFN_cuCtxDestroy_v4000)                                  \
  ROW(cuCtxPopCurrent, "cuCtxPopCurrent_v2", PFN_cuCtxPopCurrent_v4000)                         \
  ROW(cuMemAlloc, "cuMemAlloc_v2", PFN_cuMemAlloc_v3020)                                        \
  ROW(cuMemFree, "cuMemFree_v2", PFN_cuMemFree_v3020)                                           \
  ROW(cuMemGetInfo, "cuMemGetInfo_v2", PFN_cuMemGetInfo_v3020)                                  \
  ROW(cuMemsetD8Async, "cuMemsetD8Async", PFN_cuMemsetD8Async_v3020)                            \
  ROW(cuMemcpyAsync, "cuMemcpyAsync", PFN_cuMemcpyAsync_v4000)                                  \
  ROW(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", PFN_cuMemcpyDtoHAsync_v3020)                   \
  ROW(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", PFN_cuMemcpyDtoDAsync_v3020)                   \
  ROW(cuMemcpy, "cuMemcpy", PFN_cuMemcpy_v4000)                                                 \
  ROW(cuMemcpyDtoD, "cuMemcpyDtoD_v2", PFN_cuMemcpyDtoD_v3020)                                  \
  ROW(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", PFN_cuMemcpyPeerAsync_v4000)                      \
  ROW(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2", PFN_cuMemcpy2DAsync_v3020)                         \
  ROW(cuMemGetAddressRange, "cuMemGetAddressRange_v2", PFN_cuMemGetAddressRange_v3020)          \
  ROW(cuMemAllocAsync, "cuMemAllocAsync", PFN_cuMemAllocAsync_v11020)                           \
  ROW(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", PFN_cuMemAllocFromPoolAsync_v11020)   \
  ROW(cuMemFreeAsync, "cuMemFreeAsync", PFN_cuMemFreeAsync_v11020)                              \
  ROW(cuMemPoolCreate, "cuMemPoolCreate", PFN_cuMemPoolCreate_v11020)                           \
  ROW(cuMemPoolDestroy, "cuMemPoolDestroy", PFN_cuMemPoolDestroy_v11020)                        \
  ROW(cuMemPoolTrimTo, "cuMemPoolTrimTo", PFN_cuMemPoolTrimTo_v11020)                           \
  ROW(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", PFN_cuMemPoolSetAttribute_v11020)         \
  ROW(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", PFN_cuMemPoolGetAttribute_v11020)         \
  ROW(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool",                                   \
      PFN_cuDeviceGetDefaultMemPool_v11020)                                                     \
  ROW(cuDeviceSetMemPool, "cuDeviceSetMemPool", PFN_cuDeviceSetMemPool_v11020)                  \
  ROW(cuPointerGetAttribute, "cuPointerGetAttribute", PFN_cuPointerGetAttribute_v4000)

struct DriverCalls {
#define ROW(call, symbol, type) type f_##call;
  CALLS(ROW)
#undef ROW
};
extern struct DriverCalls driver;

/* Ends the program unless the call succeeded. */
void check(CUresult result, const char *call);
#define CALL(call, ...) check(driver.f_##call(__VA_ARGS__), #call)

enum { buffers = 6, streams_count = 64 };
static const size_t buffer_bytes = (size_t)4 << 20;
extern CUdeviceptr memory[buffers];
extern unsigned char *bytes; /* As many as a buffer has. */
extern CUstream streams[streams_count];
extern const char *way;
extern const char *work;
static inline int is_work(const char *name) {
  return strcmp(work, name) == 0;
}
/* Half a millisecond of work. */
void work_a_while(void *);

/* --- gpus.cpp */

/* A copy waits for the other GPU's work, whose later work waits for the copy. The context is the
 * current one, of GPU 0. */
void copy_between_gpus(CUcontext here);
CUcontext enter_inactive_context(void);

/* --- graphs.cpp */

/* A graph of fills, which is updated later, when its memory may have moved. */
void instantiate_graph(void);
void update_graph(void);

/* --- newer.cpp */

void fill_by_newer_calls(int buffer, unsigned char value, CUstream stream);

/* --- room.cpp */

/* The context is the current one, of GPU 0. */
void ask_for_room(CUcontext here);

/* --- corners.cpp */

void count_unready_streams(CUcontext here);
void allocate_too_much(void);
void allocate_when_ending(CUcontext context);
void outlive_green_context(CUcontext primary);
void misuse_stream(void);
void free_beside_contexts(CUcontext here);
void start_daemons(CUcontext here);
void expect_end_of_runtime(void);

/* --- pools.cpp: memory from pools */

extern CUmemoryPool pool; /* Null: all memory is from cuMemAlloc. */
void open_pools(void);
CUdeviceptr allocate_buffer(void);
void free_buffer(CUdeviceptr pointer);
/* Each buffer is a copy of memory that is allocated, filled and freed without waiting. */
void fill_by_pools(unsigned char value);
/* Frees memory of cuMemAlloc in the order of a stream whose work comes later. Returns zero. */
int free_before_work(void);
/* Resets GPU 0, with all memory from pools allocated. Returns zero. */
int reset_gpu(void);
/* They keep nothing any more. */
void close_pools(void);
/* What pools count and answer. */
void use_pools_once(void);
