// Collectives on registered buffers: memory of cudaMalloc that is registered with each
// communicator, memory of ncclMemAlloc, and (argument "vmm") memory that the program maps itself;
// eager and in CUDA graphs, which register buffers by themselves. One process, two GPUs. NCCL is
// opened at run time, so that no header is needed. the same address), cuDecomp#152, nccl#1584
#include "runtime_case.cuh"
#include <dlfcn.h>

typedef struct ncclComm* Comm;
typedef int (*InitAll)(Comm*, int, const int*);
typedef int (*Reduce)(const void*, void*, size_t, int, int, Comm, cudaStream_t);
typedef int (*Group)();
typedef int (*Register)(Comm, void*, size_t, void**);
typedef int (*Deregister)(Comm, void*);
typedef int (*Allocate)(void**, size_t);
typedef int (*Free)(void*);
typedef int (*Destroy)(Comm);
typedef const char* (*Text)(int);
static Text text;
#define NC(call)                                                      \
  do {                                                                \
    const int r_ = (call);                                            \
    NEED(r_ == 0, "%s: %s", #call, text != nullptr ? text(r_) : "?"); \
  } while (0)
template <typename F>
static F find(void* library, const char* name) {
  F found = (F)dlsym(library, name);
  NEED(found != nullptr, "NCCL lacks %s", name);
  return found;
}

__global__ void stamp(int* data, size_t n, int seed) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    data[i] = (int)(i % 100003) * 3 + seed;
}
__global__ void check(const int* data, size_t n, int sum_of_seeds, unsigned long long* wrong) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    if (data[i] != (int)(i % 100003) * 6 + sum_of_seeds) atomicAdd(wrong, 1ull);
}

static void* map_memory(int gpu, size_t bytes) {
  CUmemAllocationProp prop;
  std::memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = gpu;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;
  DR(cuMemCreate(&handle, bytes, &prop, 0));
  DR(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  DR(cuMemMap(at, bytes, 0, handle, 0));
  CUmemAccessDesc access[2];
  for (int g = 0; g < 2; ++g) {
    access[g].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[g].location.id = g;
    access[g].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  DR(cuMemSetAccess(at, bytes, access, 2));
  return (void*)at;
}

int main(int argc, char** argv) {
  const double end = now() + limit_s();
  const bool vmm = argc > 1 && std::strcmp(argv[1], "vmm") == 0;
  int gpus = 0;
  RT(cudaGetDeviceCount(&gpus));
  if (gpus < 2) return skip("needs 2 GPUs");
  void* library = dlopen("libnccl.so.2", RTLD_NOW);
  if (library == nullptr) return skip("there is no libnccl.so.2");
  text = (Text)dlsym(library, "ncclGetErrorString");
  const auto init = find<InitAll>(library, "ncclCommInitAll");
  const auto reduce = find<Reduce>(library, "ncclAllReduce");
  const auto begin_group = find<Group>(library, "ncclGroupStart"),
             end_group = find<Group>(library, "ncclGroupEnd");
  const auto enter = find<Register>(library, "ncclCommRegister");
  const auto leave = find<Deregister>(library, "ncclCommDeregister");
  const auto allocate = find<Allocate>(library, "ncclMemAlloc");
  const auto release = find<Free>(library, "ncclMemFree");
  const auto destroy = find<Destroy>(library, "ncclCommDestroy");

  constexpr size_t bytes = 16 * mib, count = bytes / 4;
  Comm comms[2];
  const int devices[2] = {0, 1};
  NC(init(comms, 2, devices));
  int *plain[2], *of_nccl[2];
  cudaStream_t streams[2];
  void* registrations[2][2];
  unsigned long long* wrong;
  RT(cudaMallocHost(&wrong, sizeof *wrong));
  *wrong = 0;
  for (int g = 0; g < 2; ++g) {
    RT(cudaSetDevice(g));
    RT(cudaStreamCreateWithFlags(&streams[g], cudaStreamNonBlocking));
    if (vmm)
      plain[g] = (int*)map_memory(g, bytes);
    else
      RT(cudaMalloc(&plain[g], bytes));
    NC(allocate((void**)&of_nccl[g], bytes));
  }
  for (int g = 0; g < 2; ++g) {
    RT(cudaSetDevice(g));
    NC(enter(comms[g], plain[g], bytes, &registrations[g][0]));
    NC(enter(comms[g], of_nccl[g], bytes, &registrations[g][1]));
  }
  cudaGraph_t graphs[2];
  cudaGraphExec_t execs[2];
  for (int g = 0; g < 2; ++g) RT(cudaStreamBeginCapture(streams[g], cudaStreamCaptureModeRelaxed));
  NC(begin_group());
  for (int g = 0; g < 2; ++g)
    NC(reduce(plain[g], of_nccl[g], count, 2, 0, comms[g], streams[g]));  // int32, sum
  NC(end_group());
  for (int g = 0; g < 2; ++g) {
    RT(cudaSetDevice(g));
    RT(cudaStreamEndCapture(streams[g], &graphs[g]));
    RT(cudaGraphInstantiate(&execs[g], graphs[g], 0));
  }
  int rounds = 0;
  for (; now() < end || rounds < 4; ++rounds) {
    for (int g = 0; g < 2; ++g) {
      RT(cudaSetDevice(g));
      stamp<<<128, 256, 0, streams[g]>>>(plain[g], count, rounds + g);
    }
    for (int g = 0; g < 2; ++g) {
      RT(cudaSetDevice(g));
      RT(cudaGraphLaunch(execs[g], streams[g]));
    }
    for (int g = 0; g < 2; ++g) {
      RT(cudaSetDevice(g));
      check<<<128, 256, 0, streams[g]>>>(of_nccl[g], count, 2 * rounds + 1, wrong);
    }
    for (int g = 0; g < 2; ++g) {
      RT(cudaSetDevice(g));
      stamp<<<128, 256, 0, streams[g]>>>(of_nccl[g], count, 5 - g);
    }
    NC(begin_group());
    for (int g = 0; g < 2; ++g) NC(reduce(of_nccl[g], plain[g], count, 2, 0, comms[g], streams[g]));
    NC(end_group());
    for (int g = 0; g < 2; ++g) {
      RT(cudaSetDevice(g));
      check<<<128, 256, 0, streams[g]>>>(plain[g], count, 9, wrong);
      RT(cudaStreamSynchronize(streams[g]));
    }
    NEED(*wrong == 0, "round %d: %llu words are wrong", rounds, *wrong);
  }
  for (int g = 0; g < 2; ++g) {
    RT(cudaSetDevice(g));
    RT(cudaGraphExecDestroy(execs[g]));
    RT(cudaGraphDestroy(graphs[g]));
    for (void* one : registrations[g]) NC(leave(comms[g], one));
    NC(release(of_nccl[g]));
    if (!vmm) RT(cudaFree(plain[g]));
  }
  for (Comm one : comms) NC(destroy(one));
  std::fprintf(stderr, "%d rounds\n", rounds);
  std::printf("OK\n");
  return 0;
}
