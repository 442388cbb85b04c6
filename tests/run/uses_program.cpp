/* A CUDA program whose two GPUs use memory in ways that its calls show, or do not. It knows nothing
 * of vmart, and its counters are right wherever memory is moved meanwhile.
 *
 *   uses_program linked WORK
 *
 * Each buffer has a size of its own, by which a test finds it. WORK is done again and again until a
 * line arrives on standard input or that is closed:
 *
 *   graphs       GPU 1 launches graphs whose nodes use buffers of GPU 0: kernels, also in a child
 *                graph, and such whose parameters were changed since
 *   captured     the same with a captured graph of a kernel, a copy and a fill
 *   unplaced     GPU 0 launches a graph of a copy and a fill, which became executable in a thread
 *                without a context
 *   threads      GPU 1 launches graphs of several threads, which change and are destroyed meanwhile
 *   counted      GPU 1 launches graphs some times and destroys them, until it has done so often
 *                enough
 *   plain        GPU 1 uses buffers of GPU 0 by copies of rows and by launches of all kinds
 *   blind        GPU 1 uses a buffer of GPU 0, whose own launches do not show what they use
 *   evenly       both GPUs use a buffer equally often
 *   alternating  the same, but in turns of many launches
 *   cyclic       GPU 0 reads the parts of many buffers, one after the other and again and again;
 *                how many launches a buffer takes differs
 *
 * In the three before, GPU 0 also uses a buffer of GPU 1, which nobody else does. On simulated GPUs
 * the program needs vmart, since memory of one GPU is out of the other's reach there.
 */
#include <cuda.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace {

constexpr const char *kernels_ptx =
#include "support/kernels/test_kernels.ptx.inc"
    ;

void check(CUresult result, const char *call, int line) {
  if (result == CUDA_SUCCESS) return;
  printf("line %d: %s returned %d\n", line, call, (int)result);
  exit(1);
}
#define CALL(call) check(call, #call, __LINE__)

struct Gpu {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUfunction add = nullptr; /* (word, value): adds to the word. */
};
Gpu gpus[2];

void enter(int gpu) {
  CALL(cuCtxSetCurrent(gpus[gpu].context));
}

void open_gpu(int ordinal) {
  Gpu &gpu = gpus[ordinal];
  CUmodule module = nullptr;
  CALL(cuDevicePrimaryCtxRetain(&gpu.context, ordinal));
  enter(ordinal);
  CALL(cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING));
  CALL(cuModuleLoadData(&module, kernels_ptx));
  CALL(cuModuleGetFunction(&gpu.add, module, "vmart_atomic_add"));
}

/* A buffer that counts in its first word. */
struct Buffer {
  CUdeviceptr begin = 0;
  const char *name = "";
  unsigned long long expected = 0; /* Whoever enqueues counts here. */
};
std::vector<Buffer *> all_buffers; /* Of the work. */

void allocate(Buffer &buffer, int gpu, size_t mib, const char *name) {
  enter(gpu);
  CALL(cuMemAlloc(&buffer.begin, mib << 20));
  CALL(cuMemsetD8(buffer.begin, 0, mib << 20));
  CALL(cuCtxSynchronize());
  buffer.name = name;
  all_buffers.push_back(&buffer);
}

void check_counters() {
  for (const Buffer *buffer : all_buffers) {
    unsigned long long counted = 0;
    CALL(cuMemcpyDtoH(&counted, buffer->begin, sizeof counted));
    if (counted == buffer->expected) continue;
    printf("%s counts %llu, not %llu\n", buffer->name, counted, buffer->expected);
    exit(1);
  }
}

void launch(int gpu, Buffer &buffer) {
  unsigned long long one = 1;
  void *parameters[] = {&buffer.begin, &one};
  enter(gpu);
  CALL(cuLaunchKernel(gpus[gpu].add, 1, 1, 1, 1, 1, 1, 0, gpus[gpu].stream, parameters, nullptr));
  ++buffer.expected;
}

void finish() {
  for (int gpu = 0; gpu < 2; ++gpu) {
    enter(gpu);
    CALL(cuStreamSynchronize(gpus[gpu].stream));
  }
}

template <typename Body>
void repeat(Body body) {
  body();
  printf("ready\n");
  fflush(stdout);
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 0) == 0) body();
}

/* --- Graphs */

unsigned long long one = 1;

CUDA_KERNEL_NODE_PARAMS kernel_on(Buffer &buffer, void **parameters) {
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = gpus[1].add;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  parameters[0] = &buffer.begin;
  parameters[1] = &one;
  kernel.kernelParams = parameters;
  return kernel;
}

CUgraphNode add_kernel(CUgraph graph, Buffer &buffer) {
  void *parameters[2];
  CUgraphNode node = nullptr;
  const CUDA_KERNEL_NODE_PARAMS kernel = kernel_on(buffer, parameters);
  CALL(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  return node;
}

void run_graphs() {
  Buffer by_kernel, by_child, before, after, updated_before, updated_after, unused;
  allocate(by_kernel, 0, 4, "by_kernel");
  allocate(by_child, 0, 6, "by_child");
  allocate(before, 0, 8, "before");
  allocate(after, 0, 10, "after");
  allocate(updated_before, 0, 12, "updated_before");
  allocate(updated_after, 0, 14, "updated_after");
  allocate(unused, 0, 16, "unused");
  enter(1);

  CUgraph graph = nullptr, child = nullptr, update = nullptr, single = nullptr;
  CUgraphNode node = nullptr;
  CALL(cuGraphCreate(&graph, 0));
  CALL(cuGraphCreate(&child, 0));
  CALL(cuGraphCreate(&single, 0));
  CALL(cuGraphCreate(&update, 0));
  add_kernel(child, by_child);
  add_kernel(graph, by_kernel);
  CALL(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  CALL(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  CUgraphNode changed = add_kernel(graph, before);
  add_kernel(single, updated_before);
  add_kernel(update, updated_after);

  /* The context in which they become executable is not that of their nodes. */
  CUgraphExec exec = nullptr, updated = nullptr;
  enter(0);
  CALL(cuGraphInstantiate(&exec, graph, 0));
  CALL(cuGraphInstantiate(&updated, single, 0));
  void *parameters[2];
  const CUDA_KERNEL_NODE_PARAMS kernel = kernel_on(after, parameters);
  CALL(cuGraphExecKernelNodeSetParams(exec, changed, &kernel));
  CUgraphExecUpdateResultInfo info;
  CALL(cuGraphExecUpdate(updated, update, &info));
  for (CUgraph each : {graph, child, single, update}) CALL(cuGraphDestroy(each));

  repeat([&] {
    enter(1);
    CALL(cuGraphLaunch(exec, gpus[1].stream));
    CALL(cuGraphLaunch(updated, gpus[1].stream));
    for (Buffer *used : {&by_kernel, &by_child, &after, &updated_after}) ++used->expected;
    finish();
  });
  CALL(cuGraphExecDestroy(exec));
  CALL(cuGraphExecDestroy(updated));
  check_counters();
}

void run_captured() {
  Buffer by_kernel, source, target, filled, unused;
  allocate(by_kernel, 0, 4, "by_kernel");
  allocate(source, 0, 6, "source");
  allocate(target, 0, 8, "target");
  allocate(filled, 0, 10, "filled");
  allocate(unused, 0, 16, "unused");
  enter(1);
  CUstream stream = gpus[1].stream;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CALL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  launch(1, by_kernel);
  --by_kernel.expected;
  CALL(cuMemcpyAsync(target.begin, source.begin, 6 << 20, stream));
  CALL(cuMemsetD8Async(filled.begin, 0, 10 << 20, stream));
  CALL(cuStreamEndCapture(stream, &graph));
  CALL(cuGraphInstantiate(&exec, graph, 0));
  CALL(cuGraphDestroy(graph));
  repeat([&] {
    enter(1);
    CALL(cuGraphLaunch(exec, stream));
    ++by_kernel.expected;
    finish();
  });
  CALL(cuGraphExecDestroy(exec));
  check_counters();
}

/* The thread has no context then, so where its copies and fills run is not known. */
void run_unplaced() {
  Buffer source, target, filled, unused;
  allocate(source, 0, 6, "source");
  allocate(target, 0, 8, "target");
  allocate(filled, 0, 10, "filled");
  allocate(unused, 0, 16, "unused");
  CUstream stream = gpus[0].stream;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CALL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CALL(cuMemcpyAsync(target.begin, source.begin, 6 << 20, stream));
  CALL(cuMemsetD8Async(filled.begin, 0, 10 << 20, stream));
  CALL(cuStreamEndCapture(stream, &graph));
  CALL(cuCtxSetCurrent(nullptr));
  CALL(cuGraphInstantiate(&exec, graph, 0));
  CALL(cuGraphDestroy(graph));
  repeat([&] {
    enter(0);
    CALL(cuGraphLaunch(exec, stream));
    finish();
  });
  CALL(cuGraphExecDestroy(exec));
  enter(0);
  check_counters();
}

/* Each thread has graphs of its own, and launches one of all. */
void run_threads() {
  constexpr int threads_count = 4, launches = 20;
  struct Own {
    Buffer first, second;
    CUstream stream = nullptr;
  };
  static Own own[threads_count];
  static Buffer common, unused;
  allocate(common, 0, 4, "common");
  allocate(unused, 0, 16, "unused");
  for (Own &each : own) {
    allocate(each.first, 0, 6, "first");
    allocate(each.second, 0, 8, "second");
    enter(1);
    CALL(cuStreamCreate(&each.stream, CU_STREAM_NON_BLOCKING));
  }
  CUgraph graph = nullptr;
  CUgraphExec shared = nullptr;
  CALL(cuGraphCreate(&graph, 0));
  add_kernel(graph, common);
  CALL(cuGraphInstantiate(&shared, graph, 0));
  CALL(cuGraphDestroy(graph));
  repeat([&] {
    std::vector<std::thread> threads;
    for (Own &each : own) {
      threads.emplace_back([&each, shared] {
        enter(1);
        CUgraph mine = nullptr;
        CUgraphExec exec = nullptr;
        CALL(cuGraphCreate(&mine, 0));
        CUgraphNode node = add_kernel(mine, each.first);
        CALL(cuGraphInstantiate(&exec, mine, 0));
        for (int i = 0; i < launches; ++i) {
          Buffer &used = i % 2 == 0 ? each.first : each.second;
          void *parameters[2];
          const CUDA_KERNEL_NODE_PARAMS kernel = kernel_on(used, parameters);
          CALL(cuGraphExecKernelNodeSetParams(exec, node, &kernel));
          CALL(cuGraphLaunch(exec, each.stream));
          CALL(cuGraphLaunch(shared, each.stream));
          ++used.expected;
        }
        CALL(cuStreamSynchronize(each.stream));
        CALL(cuGraphExecDestroy(exec));
        CALL(cuGraphDestroy(mine));
      });
    }
    for (std::thread &thread : threads) thread.join();
    common.expected += threads_count * launches;
  });
  CALL(cuGraphExecDestroy(shared));
  check_counters();
}

/* So few bytes that whoever reads uses believes all of them. */
void run_counted() {
  constexpr int graphs = 100, launches = 7;
  Buffer counted;
  allocate(counted, 0, 4, "counted");
  enter(1);
  CUgraph graph = nullptr;
  CALL(cuGraphCreate(&graph, 0));
  add_kernel(graph, counted);
  for (int i = 0; i < graphs; ++i) {
    CUgraphExec exec = nullptr;
    CALL(cuGraphInstantiate(&exec, graph, 0));
    for (int k = 0; k < launches; ++k) CALL(cuGraphLaunch(exec, gpus[1].stream));
    finish();
    CALL(cuGraphExecDestroy(exec));
  }
  CALL(cuGraphDestroy(graph));
  counted.expected = graphs * launches;
  check_counters();
  printf("launches: %llu\n", counted.expected);
}

/* --- Without graphs */

void run_plain() {
  Buffer source, target, block, cooperative, configured, unused;
  allocate(source, 0, 4, "source");
  allocate(target, 0, 6, "target");
  allocate(block, 0, 8, "block");
  allocate(cooperative, 0, 10, "cooperative");
  allocate(configured, 0, 12, "configured");
  allocate(unused, 0, 16, "unused");
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = source.begin;
  rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rows.dstDevice = target.begin;
  rows.srcPitch = 64 << 10;
  rows.dstPitch = 96 << 10;
  rows.WidthInBytes = 64 << 10;
  rows.Height = 64;
  repeat([&] {
    const Gpu &gpu = gpus[1];
    enter(1);
    CALL(cuMemcpy2DAsync(&rows, gpu.stream));
    struct {
      CUdeviceptr word;
      unsigned long long value;
    } arguments = {block.begin, 1};
    size_t bytes = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    CALL(cuLaunchKernel(gpu.add, 1, 1, 1, 1, 1, 1, 0, gpu.stream, nullptr, extra));
    ++block.expected;
    void *parameters[] = {&cooperative.begin, &one};
    CALL(cuLaunchCooperativeKernel(gpu.add, 1, 1, 1, 1, 1, 1, 0, gpu.stream, parameters));
    ++cooperative.expected;
    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = gpu.stream;
    parameters[0] = &configured.begin;
    CALL(cuLaunchKernelEx(&config, gpu.add, parameters, nullptr));
    ++configured.expected;
    finish();
  });
  check_counters();
}

/* --- Memory that both GPUs use, and one that moves in any case */

/* Parts are used equally often, so nothing is gained by a move. */
void run_cyclic() {
  constexpr size_t buffers = 20, mib = 4;
  static Buffer all[buffers];
  for (Buffer &buffer : all) allocate(buffer, 0, mib, "cyclic");
  repeat([&] {
    for (size_t i = 0; i < buffers; ++i) {
      const size_t parts = size_t{1} << i % 5;
      for (size_t part = 0; part < parts; ++part) {
        CUdeviceptr word = all[i].begin + part * ((mib << 20) / parts);
        void *parameters[] = {&word, &one};
        enter(0);
        CALL(cuLaunchKernel(gpus[0].add, 1, 1, 1, 1, 1, 1, 0, gpus[0].stream, parameters, nullptr));
      }
      ++all[i].expected;
    }
    finish();
  });
  check_counters();
}

void run_shared(const char *work) {
  Buffer shared, moving, small;
  allocate(shared, 0, 4, "shared");
  allocate(moving, 1, 6, "moving");
  enter(0);
  CALL(cuMemAlloc(&small.begin, 4096));
  CALL(cuMemsetD8(small.begin, 0, 4096));
  CALL(cuCtxSynchronize());
  unsigned long long round = 0;
  repeat([&] {
    constexpr unsigned turn = 50, blind_launches = 4;
    launch(0, moving);
    if (strcmp(work, "blind") == 0) {
      /* What a kernel does that has its pointers from memory. */
      for (unsigned i = 0; i < blind_launches; ++i) launch(0, small);
      launch(1, shared);
    } else if (strcmp(work, "evenly") == 0) {
      for (int gpu = 0; gpu < 2; ++gpu) launch(gpu, shared);
    } else {
      launch(round / turn % 2 == 0 ? 0 : 1, shared);
    }
    finish();
    ++round;
  });
  if (strcmp(work, "alternating") == 0) printf("turns: %llu\n", round / 50);
  enter(0);
  check_counters();
}

}  // namespace

int main(int argc, char **argv) {
  const char *work = argc > 2 ? argv[2] : "graphs";
  CALL(cuInit(0));
  for (int gpu = 0; gpu < 2; ++gpu) open_gpu(gpu);
  for (int gpu = 0; gpu < 2; ++gpu) {
    enter(gpu);
    CALL(cuCtxEnablePeerAccess(gpus[1 - gpu].context, 0));
  }
  if (strcmp(work, "graphs") == 0) {
    run_graphs();
  } else if (strcmp(work, "captured") == 0) {
    run_captured();
  } else if (strcmp(work, "unplaced") == 0) {
    run_unplaced();
  } else if (strcmp(work, "threads") == 0) {
    run_threads();
  } else if (strcmp(work, "counted") == 0) {
    run_counted();
  } else if (strcmp(work, "plain") == 0) {
    run_plain();
  } else if (strcmp(work, "cyclic") == 0) {
    run_cyclic();
  } else {
    run_shared(work);
  }
  printf("done\n");
  return 0;
}
