/* A CUDA program that knows nothing of vmart. It prints the same under `vmart run` as without,
 * wherever its memory is moved meanwhile.
 *
 *   program WAY WORK
 *
 * WAY is how it finds the driver: linked, dlsym, resolver, or per_thread, which is the resolver for
 * programs whose stream zero is the thread's. WORK is what it does again and again until a line
 * arrives on standard input or that is closed: stream; streams, which are many; copies; or graph,
 * with a new capture each time. `fork`, `contexts`, `gpus`, `misuse` and `beside` do so once, and
 * then what stream does; `launching` and `daemons` start threads that still work when main returns;
 * `waits` queries streams that it has waited for. `forks` has a child in
 * each round that runs another program or ends. `exec` does what stream does and becomes the same
 * program with `stream` when it should end. `pools` has its memory from pools, which keep nothing
 * that is free; those of `kept` do. That of `exported` is from a pool for other processes. `late`
 * ends before "ready" if it is not stuck. `reset` resets the GPU and ends. `attributes` asks for
 * attributes that the driver answers. `updates` and `nodes` update a graph in the end that was
 * instantiated before. `elsewhere` asks for room on a GPU other than its own, and `hopeless` for
 * more than there is. `ending` uses memory in a handler of exit, and `green` what was allocated in
 * a green context. `info` prints what it is told of the GPU's memory, and `told` when that is
 * divided or unused. `full` allocates until the GPU is full, once, and `arrays` does so with
 * arrays. `newer` works by calls of drivers since CUDA 13.1. `inactive` uses another GPU, whose
 * context is current before it is active.
 */
#include "program.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

struct DriverCalls driver;

void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return;
  printf("%s returned %d\n", call, (int)result);
  exit(1);
}

static void find_driver(void) {
  if (strcmp(way, "linked") == 0) {
#define ROW(call, symbol, type) driver.f_##call = call;
    CALLS(ROW)
#undef ROW
    return;
  }
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("no driver: %s\n", dlerror());
    exit(1);
  }
  if (strcmp(way, "dlsym") == 0) {
#define ROW(call, symbol, type) driver.f_##call = (type)dlsym(library, symbol);
    CALLS(ROW)
#undef ROW
    return;
  }
  PFN_cuGetProcAddress_v12000 resolve =
      (PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2");
  const cuuint64_t flags = strcmp(way, "per_thread") == 0
                               ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                               : CU_GET_PROC_ADDRESS_DEFAULT;
  CUdriverProcAddressQueryResult status;
  void *found = NULL;
  /* The base name, as CUDA's runtime asks for it. */
#define NAME(text) #text
#define ROW(call, symbol, type)                                          \
  snprintf(name, sizeof name, "%s", symbol);                             \
  if (strlen(name) > 3 && strcmp(name + strlen(name) - 3, "_v2") == 0) { \
    name[strlen(name) - 3] = 0;                                          \
  }                                                                      \
  check(resolve(name, &found, 12000, flags, &status), name);             \
  driver.f_##call = (type)found;
  char name[64];
  CALLS(ROW)
#undef ROW
}

CUdeviceptr memory[buffers];
unsigned char *bytes;
CUstream streams[streams_count];
const char *way = "linked";
const char *work = "stream";

static void fill(CUstream stream, int buffer, unsigned char value) {
  CALL(cuMemsetD8Async, memory[buffer], (unsigned char)(value + buffer), buffer_bytes, stream);
}

static void fill_by_graph(CUstream stream, unsigned char value) {
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  for (int i = 0; i < buffers; ++i) fill(stream, i, value);
  CALL(cuStreamEndCapture, stream, &graph);
  CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
  for (int replay = 0; replay < 3; ++replay) CALL(cuGraphLaunch, exec, stream);
  CALL(cuStreamSynchronize, stream);
  CALL(cuGraphExecDestroy, exec);
  CALL(cuGraphDestroy, graph);
}

static void spin(long long nanoseconds) {
  struct timespec begin;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000000000LL + now.tv_nsec - begin.tv_nsec < nanoseconds);
}

void work_a_while(void *) {
  spin(500000);
}

/* Piece after piece, each after a while, on a stream that is destroyed at once. */
static void fill_by_orphans(unsigned char value) {
  enum { pieces = 32 };
  for (int i = 0; i < buffers; ++i) {
    CUstream orphan = NULL;
    CALL(cuStreamCreate, &orphan, CU_STREAM_NON_BLOCKING);
    for (int piece = 0; piece < pieces; ++piece) {
      CALL(cuLaunchHostFunc, orphan, work_a_while, NULL);
      CALL(cuMemsetD8Async, memory[i] + piece * (buffer_bytes / pieces), (unsigned char)(value + i),
           buffer_bytes / pieces, orphan);
    }
    CALL(cuStreamDestroy, orphan);
  }
  CALL(cuCtxSynchronize);
}

/* All buffers are filled, with values that differ, and read. */
static void round_of(unsigned char value) {
  CUstream used[buffers];
  for (int i = 0; i < buffers; ++i) {
    used[i] = streams[strcmp(work, "streams") == 0 ? (value * buffers + i) % streams_count : 0];
    if (is_work("inactive")) used[i] = NULL;
  }
  if (strcmp(work, "graph") == 0) {
    fill_by_graph(used[0], value);
  } else if (strcmp(work, "orphans") == 0) {
    fill_by_orphans(value);
  } else if (strcmp(work, "copies") == 0) {
    /* At such a pace that some are enqueued while slots are switched. */
    const size_t piece = buffer_bytes / 128;
    for (int i = 0; i < buffers; ++i) {
      for (size_t at = 0; at < buffer_bytes; at += piece) {
        CALL(cuMemsetD8Async, memory[i] + at, value, piece, used[0]);
        CALL(cuMemcpyAsync, memory[(i + 1) % buffers] + at, memory[i] + at, piece, used[0]);
        spin(20000);
      }
    }
    for (int i = 0; i < buffers; ++i) fill(used[i], i, value);
  } else if (is_work("newer")) {
    for (int i = 0; i < buffers; ++i) fill_by_newer_calls(i, (unsigned char)(value + i), used[i]);
  } else if (is_work("attributes")) {
    unsigned long long types = 0;
    for (int i = 0; i < 300000; ++i) {
      const CUdeviceptr inside = memory[i % buffers] + 4096;
      CALL(cuPointerGetAttribute, &types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, inside);
    }
    for (int i = 0; i < buffers; ++i) fill(used[i], i, value);
  } else if (pool != NULL) {
    fill_by_pools(value);
  } else if (is_work("legacy") || is_work("inactive")) {
    for (int i = 0; i < buffers; ++i) {
      CALL(cuMemsetD8, memory[i], (unsigned char)(value + i), buffer_bytes);
    }
    CALL(cuCtxSynchronize);
  } else {
    for (int i = 0; i < buffers; ++i) fill(used[i], i, value);
  }
  for (int i = 0; i < buffers; ++i) {
    CALL(cuMemcpyDtoHAsync, bytes, memory[i], buffer_bytes, used[i]);
    CALL(cuStreamSynchronize, used[i]);
    for (size_t k = 0; k < buffer_bytes; ++k) {
      if (bytes[k] == (unsigned char)(value + i)) continue;
      printf("buffer %d has %d at %zu, not %d\n", i, bytes[k], k, (unsigned char)(value + i));
      exit(1);
    }
  }
}

/* What the driver answers in a child. */
static void fork_once(void) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr pointer = 0;
    CUstream stream = NULL;
    const int allocated = driver.f_cuMemAlloc(&pointer, buffer_bytes);
    const int freed = driver.f_cuMemFree(memory[0]);
    const int filled = driver.f_cuMemsetD8Async(memory[1], 1, 16, streams[streams_count - 1]);
    const int created = driver.f_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    const int destroyed = driver.f_cuStreamDestroy(streams[1]);
    const int context_destroyed = driver.f_cuCtxDestroy(NULL);
    printf("in a child: allocated %d, freed %d, filled %d, created %d, destroyed %d and %d\n",
           allocated, freed, filled, created, destroyed, context_destroyed);
    fflush(stdout);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("the child ended with %d\n", status);
}

/* Children that never ask the driver. */
static void fork_beside(int number) {
  const pid_t child = fork();
  if (child == 0) {
    if (number % 2 == 0) execlp("true", "true", NULL);
    _exit(0);
  }
  int status = -1;
  if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return;
  printf("a child ended with %d\n", status);
  exit(1);
}

/* A context goes with its memory and its streams. */
static void create_and_destroy_context(void) {
  /* The resolver would find a newer version of it. */
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  PFN_cuCtxCreate_v3020 create = (PFN_cuCtxCreate_v3020)dlsym(library, "cuCtxCreate_v2");
  for (int i = 0; i < 3; ++i) {
    CUcontext context = NULL;
    CUcontext popped = NULL;
    CUstream stream = NULL;
    CUdeviceptr pointer = 0;
    check(create(&context, 0, 0), "cuCtxCreate");
    CALL(cuMemAlloc, &pointer, buffer_bytes);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemsetD8Async, pointer, 7, buffer_bytes, stream);
    CALL(cuCtxPopCurrent, &popped);
    CALL(cuCtxDestroy, context);
  }
  printf("contexts are gone\n");
}

/* Rows lie as far apart as the driver says, and a pitch that overflows is refused. */
static void allocate_pitched(void) {
  CUdeviceptr pointer = 0;
  size_t pitch = 0;
  CALL(cuMemAllocPitch, &pointer, &pitch, 5000, 1000, 4);
  printf("pitch %s\n", pitch >= 5000 && pitch % 256 == 0 ? "fits" : "does not fit");
  CALL(cuMemFree, pointer);
  const size_t half = (size_t)1 << 63;
  printf("too large: %d\n", (int)driver.f_cuMemAllocPitch(&pointer, &pitch, 5000, half, 4));
}

/* As many buffers as the GPU gives, and some of what others would give. */
static void fill_gpu(void) {
  enum { most = 4096 };
  static CUdeviceptr taken[most];
  int count = 0;
  while (count < most && driver.f_cuMemAlloc(&taken[count], buffer_bytes) == CUDA_SUCCESS) ++count;
  printf("full after %d\n", count);
  while (count > 0) CALL(cuMemFree, taken[--count]);
}

static int told_to_end(void) {
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) == 1;
}

static void describe(CUdeviceptr pointer) {
  CUdeviceptr begin = 0;
  size_t size = 0;
  unsigned type = 0;
  int device = -1;
  CALL(cuMemGetAddressRange, &begin, &size, pointer + 5);
  CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 5);
  CALL(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer + 5);
  printf("range %s, %zu bytes; type %u, device %d\n", begin == pointer ? "begins there" : "differs",
         size, type, device);
}

static void print_info(const char *when) {
  size_t free_bytes = 0, total_bytes = 0;
  if (strcmp(work, "info") != 0) return;
  CALL(cuMemGetInfo, &free_bytes, &total_bytes);
  printf("%s: %zu of %zu\n", when, free_bytes, total_bytes);
}

/* They are idle from then on. */
static void use_streams_once(void) {
  for (int i = 1; i < buffers; ++i) {
    fill(streams[i], i, 1);
    CALL(cuStreamSynchronize, streams[i]);
  }
}

/* What the kind of work asks for, before the rounds. */
static void do_once(CUcontext context) {
  if (is_work("idle")) use_streams_once();
  if (strcmp(work, "fork") == 0) fork_once();
  if (strcmp(work, "full") == 0) fill_gpu();
  if (strcmp(work, "contexts") == 0) create_and_destroy_context();
  if (is_work("gpus")) copy_between_gpus(context);
  if (is_work("misuse")) misuse_stream();
  if (is_work("beside")) free_beside_contexts(context);
  if (is_work("launching") || is_work("daemons")) start_daemons(context);
  use_pools_once();
  ask_for_room(context);
  instantiate_graph();
}

/* The buffers, after what some do before the first allocation. */
static void allocate_first(CUcontext context) {
  if (is_work("ending")) allocate_when_ending(context);
  if (is_work("green")) outlive_green_context(context);
  if (is_work("misuse")) allocate_too_much();
  for (int i = 0; i < buffers; ++i) memory[i] = allocate_buffer();
}

int main(int argc, char **argv) {
  if (argc > 1) way = argv[1];
  find_driver();
  if (argc > 2) work = argv[2];
  if (is_work("launching") || is_work("daemons")) expect_end_of_runtime();
  CUcontext context;
  CUdeviceptr small;
  size_t free_before, free_between, free_after, total;
  CALL(cuInit, 0);
  CALL(cuDevicePrimaryCtxRetain, &context, 0);
  CALL(cuCtxSetCurrent, context);
  if (is_work("inactive")) context = enter_inactive_context();
  for (int i = 0; i < streams_count; ++i) {
    CALL(cuStreamCreate, &streams[i],
         strcmp(work, "blocking") == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  }
  open_pools();
  CALL(cuMemGetInfo, &free_before, &total);
  print_info("before");
  allocate_first(context);
  CALL(cuMemAlloc, &small, 4096);
  CALL(cuMemGetInfo, &free_between, &total);
  print_info("allocated");
  printf("allocated: %s\n", free_before - free_between >= buffers * buffer_bytes ? "yes" : "no");
  bytes = (unsigned char *)malloc(buffer_bytes);
  if (bytes == NULL) return 1;
  round_of(1);
  do_once(context);
  if (is_work("late")) return free_before_work();
  if (is_work("reset")) return reset_gpu();
  if (pool == NULL) allocate_pitched();
  printf("ready\n");
  fflush(stdout);
  for (unsigned char value = 2; !told_to_end(); ++value) {
    round_of(value);
    if (strcmp(work, "forks") == 0) fork_beside(value);
    if (is_work("waits")) count_unready_streams(context);
  }
  if (strcmp(work, "exec") == 0) execl("/proc/self/exe", argv[0], argv[1], "stream", NULL);

  update_graph();
  round_of(100);
  CUstream stream = streams[0];
  for (int i = 1; i < buffers; ++i) {
    CALL(cuMemcpyDtoDAsync, memory[i], memory[i - 1], buffer_bytes / 2, stream);
  }
  unsigned long long sum = 0;
  for (int i = 0; i < buffers; ++i) {
    CALL(cuMemcpyDtoHAsync, bytes, memory[i], buffer_bytes, stream);
    CALL(cuStreamSynchronize, stream);
    for (size_t k = 0; k < buffer_bytes; ++k) sum = sum * 31 + bytes[k];
  }
  printf("sum %llx\n", sum);
  describe(memory[2]);
  describe(small);
  for (int i = 0; i < streams_count; ++i) CALL(cuStreamDestroy, streams[i]);
  for (int i = 0; i < buffers; ++i) free_buffer(memory[i]);
  CALL(cuMemFree, small);
  if (pool != NULL) close_pools();
  CALL(cuMemGetInfo, &free_after, &total);
  printf("freed: %s\n", free_after >= free_between + buffers * buffer_bytes ? "yes" : "no");
  free(bytes);
  return 0;
}
