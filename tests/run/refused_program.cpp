/* A CUDA program whose calls the driver refuses. It knows nothing of vmart, and prints the same
 * with it: the codes that it gets.
 *
 *   refused_program WORK
 *
 *   broken       a kernel writes to an address that is nobody's, which ends the context
 *   captures     allocates and frees while streams capture, in each mode
 *   orphans      destroys streams that capture, and goes on
 *   primary      releases the primary context of GPU 1 once too often
 *   mappings     changes the mappings of memory that it has not mapped
 *   synchronous  asks for synchronous copies in its context, and no longer
 *
 * `orphans`, `primary`, `mappings` and `synchronous` print "ready" and wait for a line or the end
 * of standard input, once or more, so that memory can be moved.
 */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>
#include <thread>

namespace {

constexpr const char *kernels_ptx =
#include "support/kernels/test_kernels.ptx.inc"
    ;
constexpr size_t bytes = (size_t)4 << 20, words = bytes / 8;

void check(CUresult result, const char *call, int line) {
  if (result == CUDA_SUCCESS) return;
  printf("line %d: %s returned %d\n", line, call, (int)result);
  exit(1);
}
#define CALL(call) check(call, #call, __LINE__)
#define SHOW(call) printf("%s: %d\n", #call, (int)(call))

CUcontext contexts[2];
CUfunction fill, add;
CUdeviceptr memory;

void start() {
  CUmodule module = nullptr;
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&contexts[0], 0));
  CALL(cuCtxSetCurrent(contexts[0]));
  CALL(cuModuleLoadData(&module, kernels_ptx));
  CALL(cuModuleGetFunction(&fill, module, "vmart_fill"));
  CALL(cuModuleGetFunction(&add, module, "vmart_add"));
  CALL(cuMemAlloc(&memory, bytes));
}

CUresult launch(CUfunction function, CUdeviceptr at, unsigned long long value, CUstream stream) {
  unsigned long long count = words;
  void *arguments[] = {&at, &count, &value};
  return cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr);
}

void wait_for_line() {
  char byte = 0;
  printf("ready\n");
  fflush(stdout);
  while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
  }
}

/* The sum of all words, which each of the launches changes. */
void print_sum() {
  static unsigned long long words_now[words];
  unsigned long long sum = 0;
  CALL(cuMemcpyDtoH(words_now, memory, bytes));
  for (const unsigned long long word : words_now) sum = sum * 31 + word;
  printf("sum %llx\n", sum);
}

void break_context() {
  CUdeviceptr other = 0;
  CUstream stream = nullptr;
  CALL(cuMemAlloc(&other, bytes));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(launch(fill, memory, 1, stream));
  CALL(cuStreamSynchronize(stream));
  CALL(launch(fill, 0x7000000000, 1, stream));
  SHOW(cuStreamSynchronize(stream));
  CUdeviceptr pointer = 0;
  size_t pitch = 0;
  SHOW(cuMemAlloc(&pointer, bytes));
  SHOW(cuMemAllocPitch(&pointer, &pitch, 5000, 1000, 4));
  SHOW(cuMemAllocAsync(&pointer, bytes, stream));
  SHOW(cuMemcpyDtoD(other, memory, bytes));
  SHOW(cuCtxSynchronize());
  SHOW(cuMemFree(memory));
  SHOW(cuMemFreeAsync(other, stream));
}

/* One after the other in this thread, and in another one. */
void allocate_and_free(const char *where) {
  CUdeviceptr made = 0;
  const CUresult allocated = cuMemAlloc(&made, bytes);
  printf("%s: allocates %d", where, (int)allocated);
  printf(", frees %d\n", (int)(allocated == CUDA_SUCCESS ? cuMemFree(made) : cuMemFree(memory)));
}

void allocate_in_captures() {
  CUstream stream = nullptr;
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_GLOBAL}) {
    for (int where = 0; where < 3; ++where) {
      CUgraph graph = nullptr;
      CALL(cuStreamBeginCapture(stream, mode));
      CALL(launch(add, memory, 1, stream));
      if (where == 0) allocate_and_free("here");
      if (where == 1) {
        std::thread([] {
          CALL(cuCtxSetCurrent(contexts[0]));
          allocate_and_free("in another thread");
        }).join();
      }
      if (where == 2) {
        CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
        CALL(cuThreadExchangeStreamCaptureMode(&relaxed));
        CUdeviceptr made = 0;
        CALL(cuMemAlloc(&made, bytes));
        CALL(cuMemFree(made));
        CALL(cuThreadExchangeStreamCaptureMode(&relaxed));
      }
      const CUresult ended = cuStreamEndCapture(stream, &graph);
      printf("mode %d ends with %d\n", (int)mode, (int)ended);
      if (graph != nullptr) CALL(cuGraphDestroy(graph));
      /* It may have been freed by a call that another driver allows. */
    }
  }
  allocate_and_free("after all");
}

/* As NCCL does it: a stream joins the capture only so that its dependencies can be read. */
void destroy_capturing_streams() {
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUstream stream = nullptr, joined = nullptr, origin = nullptr;
  CALL(launch(fill, memory, 1, nullptr));
  CALL(cuCtxSynchronize());
  CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CALL(launch(add, memory, 1, stream));
  CALL(cuEventRecord(event, stream));
  CALL(cuStreamWaitEvent(joined, event, 0));
  SHOW(cuStreamDestroy(joined));
  CALL(launch(add, memory, 2, stream));
  SHOW(cuStreamEndCapture(stream, &graph));
  if (graph != nullptr) {
    CALL(cuGraphInstantiate(&exec, graph, 0));
    CALL(cuGraphLaunch(exec, stream));
    CALL(cuStreamSynchronize(stream));
  }
  CALL(cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING));
  CALL(launch(add, memory, 3, origin)); /* Goes on after the stream has gone. */
  CALL(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
  CALL(launch(add, memory, 4, origin));
  SHOW(cuStreamDestroy(origin));
  CALL(cuCtxSynchronize());
  wait_for_line();
  CALL(launch(add, memory, 5, stream));
  CALL(cuStreamSynchronize(stream));
  print_sum();
}

void release_too_often() {
  CUdeviceptr there = 0;
  CALL(launch(fill, memory, 7, nullptr));
  CALL(cuDevicePrimaryCtxRetain(&contexts[1], 1));
  CALL(cuCtxSetCurrent(contexts[1]));
  CALL(cuMemAlloc(&there, bytes));
  CALL(cuMemFree(there));
  CALL(cuCtxSetCurrent(contexts[0]));
  SHOW(cuDevicePrimaryCtxRelease(1));
  for (int i = 0; i < 3; ++i) SHOW(cuDevicePrimaryCtxRelease(1));
  SHOW(cuDevicePrimaryCtxRelease(77));
  size_t before = 0, after = 0, total = 0;
  CALL(cuMemGetInfo(&before, &total));
  for (int i = 0; i < 8; ++i) {
    CUdeviceptr large = 0;
    CALL(cuMemAlloc(&large, (16 + (size_t)i) * bytes)); /* Not one of those before. */
    CALL(cuMemsetD8(large, 1, bytes));
    CALL(cuMemFree(large));
  }
  CALL(cuMemGetInfo(&after, &total));
  printf("given back: %s\n", after + 4 * bytes >= before ? "yes" : "no");
  wait_for_line();
  CALL(launch(add, memory, 1, nullptr));
  print_sum();
  CALL(cuDevicePrimaryCtxRetain(&contexts[1], 1));
  CALL(cuCtxSetCurrent(contexts[1]));
  CALL(cuMemAlloc(&there, bytes));
  CALL(cuMemFree(there));
  CALL(cuCtxSetCurrent(contexts[0]));
  SHOW(cuMemFree(memory));
  SHOW(cuDevicePrimaryCtxRelease(1));
}

void change_mappings() {
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccessDesc rights = {here, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  unsigned long long flags = 0;
  CUdeviceptr other = 0;
  CALL(launch(fill, memory, 7, nullptr));
  SHOW(cuMemUnmap(memory, bytes));
  SHOW(cuMemUnmap(memory, bytes / 2));
  SHOW(cuMemAddressFree(memory, bytes));
  SHOW(cuMemSetAccess(memory, bytes, &rights, 1));
  SHOW(cuMemGetAccess(&flags, &here, memory + 5)); /* Which the driver answers. */
  printf("may write: %d\n", flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CALL(cuMemAlloc(&other, bytes));
  printf("another lies %s\n", other == memory ? "there" : "elsewhere");
  wait_for_line();
  CALL(launch(add, memory, 1, nullptr));
  print_sum();
  SHOW(cuMemFree(other));
  SHOW(cuMemFree(memory));
}

/// In the flags of the current context, or of the primary one, which that is.
void ask_for_synchronous_copies(bool of_primary) {
  CUdeviceptr later = 0;
  unsigned flags = 0;
  int active = 0;
  const auto set = [=](unsigned wanted) {
    return of_primary ? cuDevicePrimaryCtxSetFlags(0, wanted) : cuCtxSetFlags(wanted);
  };
  CALL(launch(fill, memory, 7, nullptr));
  SHOW(set(CU_CTX_SYNC_MEMOPS));
  CALL(of_primary ? cuDevicePrimaryCtxGetState(0, &flags, &active) : cuCtxGetFlags(&flags));
  printf("set: %d\n", (flags & CU_CTX_SYNC_MEMOPS) != 0);
  CALL(cuMemAlloc(&later, bytes));
  wait_for_line();
  SHOW(set(flags & ~(unsigned)CU_CTX_SYNC_MEMOPS));
  wait_for_line();
  CALL(launch(add, memory, 1, nullptr));
  print_sum();
  SHOW(cuMemFree(later));
}

}  // namespace

int main(int, char **argv) {
  const char *work = argv[1];
  start();
  if (strcmp(work, "broken") == 0) break_context();
  if (strcmp(work, "captures") == 0) allocate_in_captures();
  if (strcmp(work, "orphans") == 0) destroy_capturing_streams();
  if (strcmp(work, "primary") == 0) release_too_often();
  if (strcmp(work, "mappings") == 0) change_mappings();
  if (strcmp(work, "synchronous") == 0) ask_for_synchronous_copies(false);
  if (strcmp(work, "primary_synchronous") == 0) ask_for_synchronous_copies(true);
  return 0;
}
