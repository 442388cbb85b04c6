// Work that never ends by itself, while the memory that it writes moves: a graph that launches itself
// again, and kernels of two GPUs that wait for each other. Nothing is attached. Every word must have
// been counted as often as the work says.
//
// endless_work CASE [MOVES]     prints a line; exits with 1 if words differ or a move failed; with 77
//                               without the GPUs or where work cannot be suspended
//
// Independent of the runtime's build: nvcc builds it against the C interface (newer_work.sh).
#include "checked.cuh"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr std::size_t bytes = std::size_t{32} << 20;
constexpr unsigned blocks = 64, threads = 512;  // All of them run at once.
constexpr std::size_t words = bytes / sizeof(unsigned), words_of_block = words / blocks;
constexpr int moves_of_test = 60;

/// In host memory, which GPUs and CPU see.
struct Told {
  volatile unsigned ends;
  volatile unsigned counted[blocks];
};

__device__ void count_up(unsigned* memory) {
  unsigned* const mine = memory + blockIdx.x * words_of_block;
  for (std::size_t i = threadIdx.x; i < words_of_block; i += blockDim.x) ++mine[i];
}

__global__ void count(unsigned* memory, Told* told) {
  count_up(memory);
  if (threadIdx.x == 0) told->counted[blockIdx.x] = told->counted[blockIdx.x] + 1;
}
__global__ void go_on(const Told* told) {
  if (told->ends == 0) cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

/// Block by block, the two GPUs take turns.
__global__ void count_in_turn(unsigned* memory, unsigned* turns, unsigned gpu, Told* told) {
  __shared__ bool over;
  volatile unsigned* const turn = turns + blockIdx.x;
  for (;;) {
    if (threadIdx.x == 0) {
      while (*turn % 2 != gpu && told->ends == 0) {
      }
      over = *turn % 2 != gpu;
    }
    __syncthreads();
    if (over) return;
    __threadfence_system();
    count_up(memory);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
      told->counted[blockIdx.x] = *turn + 1;
      __threadfence_system();
      *turn = *turn + 1;
      over = told->ends != 0;
    }
    __syncthreads();
    if (over) return;
  }
}

void launch_itself(unsigned* memory, Told* told) {
  cudaStream_t stream{};
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  count<<<blocks, threads, 0, stream>>>(memory, told);
  go_on<<<1, 1, 0, stream>>>(told);
  cudaGraph_t graph{};
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t ready{};
  CHECK(cudaGraphInstantiate(&ready, graph, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK(cudaGraphUpload(ready, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphLaunch(ready, stream));
}

void launch_across(unsigned* memory, Told* told) {
  unsigned* turns = nullptr;
  CHECK(cudaMalloc(&turns, blocks * sizeof *turns));
  CHECK(cudaMemset(turns, 0, blocks * sizeof *turns));
  CHECK(cudaDeviceSynchronize());
  for (int gpu = 1; gpu >= 0; --gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceEnablePeerAccess(1 - gpu, 0));
    cudaStream_t stream{};
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    count_in_turn<<<blocks, threads, 0, stream>>>(memory, turns, gpu, told);
    CHECK(cudaGetLastError());
  }
}

struct Moves {
  int moved = 0;
  double stall_ms_max = 0;
};

/// In turn: in the background, and in this thread.
Moves move(void* memory, int gpus, int wanted) {
  std::vector<vmart_place> places{{VMART_HOST, 0}};
  for (int gpu = 0; gpu < gpus; ++gpu) places.push_back({VMART_GPU, gpu});
  Moves moves;
  for (std::size_t at = 1; moves.moved < wanted; ++moves.moved) {
    at = (at + 1 + static_cast<unsigned>(std::rand()) % (places.size() - 1)) % places.size();
    if (moves.moved % 2 == 1) {
      CHECK(vmart_migrate(memory, 0, 0, places[at], nullptr));
      continue;
    }
    vmart_migration* migration = nullptr;
    CHECK(vmart_migrate_async(memory, 0, 0, places[at], nullptr, &migration));
    CHECK(vmart_migration_wait(migration));
    vmart_migration_report report{};
    report.size_bytes = sizeof report;
    CHECK(vmart_migration_report_get(migration, &report));
    vmart_migration_release(migration);
    if (report.stall_max_ns / 1e6 > moves.stall_ms_max) moves.stall_ms_max = report.stall_max_ns / 1e6;
  }
  return moves;
}

int run(const std::string& name, int wanted) {
  const bool across = name == "across";
  if (!across && name != "graph-self") fail("endless_work", "graph-self | across");
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < (across ? 2 : 1)) {
    std::printf("skipped: this needs %d GPUs\n", across ? 2 : 1);
    return exit_skipped;
  }
  const char* const stop = std::getenv("VMART_STOP");
  if (stop != nullptr && std::string(stop) == "gate") {
    std::printf("skipped: a gate waits for work that never ends\n");
    return exit_skipped;
  }
  CHECK(cudaSetDevice(0));
  void *memory = nullptr, *told_memory = nullptr;
  CHECK(vmart_alloc(bytes, {VMART_GPU, 0}, &memory));
  CHECK(cudaMemset(memory, 0, bytes));
  CHECK(cudaHostAlloc(&told_memory, sizeof(Told), cudaHostAllocPortable | cudaHostAllocMapped));
  Told* const told = new (told_memory) Told{};
  CHECK(cudaDeviceSynchronize());
  auto* const counts = static_cast<unsigned*>(memory);
  across ? launch_across(counts, told) : launch_itself(counts, told);
  const Moves moves = move(memory, across ? 2 : gpus, wanted);
  const unsigned before = told->counted[0];
  while (told->counted[0] == before) {
  }  // It goes on.
  told->ends = 1;
  for (int gpu = 0; gpu < (across ? 2 : 1); ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceSynchronize());
  }
  std::vector<unsigned> seen(words);
  CHECK(vmart_read(memory, seen.data(), bytes));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words; ++i) wrong += seen[i] != told->counted[i / words_of_block];
  std::printf("%s: %d moves, longest stop %.2f ms, counted to %u: %zu words wrong\n", name.c_str(), moves.moved,
              moves.stall_ms_max, told->counted[0], wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : moves_of_test);
}
