// Kinds of work newer than the stream order that gates were designed for, during live moves of the
// memory that it writes: programmatic dependent launches, green contexts, graphs that kernels
// launch. The work increments every word of a range that moves and of a twin that does not; at the
// end both must be equal.
//
// newer_work CASE     prints a line; exits with 1 if words differ, nothing moved live or a gate
//                     could not rely on the order of the stream; with 77 without two GPUs
//
// Independent of the runtime's build: nvcc builds it against the C interface (newer_work.sh).
#include "checked.cuh"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

constexpr std::size_t bytes = std::size_t{64} << 20;
constexpr std::size_t words = bytes / sizeof(unsigned long long);
constexpr auto playing_time = std::chrono::seconds(4);
constexpr int launched_ahead = 8;
constexpr long long late_ns = 300'000;  // How long work waits before it writes.
constexpr unsigned blocks = 264, threads = 256;

using Words = unsigned long long*;

__device__ void wait_for(long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < ns);
}
__device__ void count_up(Words moved, Words twin) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    ++moved[i];
    ++twin[i];
  }
}

/// Triggers its dependents at once but writes late.
__global__ void trigger_then_count(Words moved, Words twin) {
  asm volatile("griddepcontrol.launch_dependents;");
  wait_for(late_ns);
  count_up(moved, twin);
}
/// Starts before its primary has ended. Ends at once, either waiting for it or not.
__global__ void end_before_primary() {}
__global__ void wait_for_primary_then_count(Words moved, Words twin) {
  asm volatile("griddepcontrol.wait;");
  count_up(moved, twin);
}
__global__ void count_late(Words moved, Words twin) {
  wait_for(late_ns);
  count_up(moved, twin);
}
__global__ void launch_graph(cudaGraphExec_t* graph, int how) {
  const cudaStream_t streams[] = {cudaStreamGraphFireAndForget, cudaStreamGraphTailLaunch,
                                  cudaStreamGraphFireAndForgetAsSibling};
  cudaGraphLaunch(*graph, streams[how]);
}
__global__ void count_wrong(const unsigned long long* moved, const unsigned long long* twin,
                            unsigned long long* wrong) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    if (moved[i] != twin[i]) atomicAdd(wrong, 1ull);
  }
}

struct Memory {
  Words moved = nullptr, twin = nullptr;
};

/// One kind of work. `launch` enqueues a round, which increments every word `counts_a_round` times.
struct Work {
  virtual ~Work() = default;
  virtual void launch() = 0;
  cudaStream_t stream = nullptr;
  unsigned long long counts_a_round = 1;
};

/// `waits`: the secondary waits for its primary, and counts too.
struct DependentLaunch final : Work {
  DependentLaunch(Memory given, bool waiting) : memory(given), waits(waiting) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    counts_a_round = waits ? 2 : 1;
  }
  void launch() override {
    trigger_then_count<<<blocks / 4, threads, 0, stream>>>(memory.moved, memory.twin);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = waits ? blocks / 4 : 1;
    config.blockDim = waits ? threads : 1;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (waits) {
      CHECK(cudaLaunchKernelEx(&config, wait_for_primary_then_count, memory.moved, memory.twin));
    } else {
      CHECK(cudaLaunchKernelEx(&config, end_before_primary));
    }
  }
  Memory memory;
  bool waits;
};

struct GreenContext final : Work {
  explicit GreenContext(Memory given) : memory(given) {
    CUdevice device{};
    CHECK(cuDeviceGet(&device, 0));
    CUdevResource all{}, part{}, rest{};
    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    unsigned groups = 1;
    CHECK(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, 16));
    CUdevResourceDesc description{};
    CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
    CUgreenCtx green{};
    CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CUstream made{};
    CHECK(cuGreenCtxStreamCreate(&made, green, CU_STREAM_NON_BLOCKING, 0));
    stream = made;
  }
  void launch() override { count_late<<<blocks, threads, 0, stream>>>(memory.moved, memory.twin); }
  Memory memory;
};

/// A graph of one kernel, which launches another graph from the device.
struct DeviceGraph final : Work {
  DeviceGraph(Memory memory, int how) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraph_t counting{}, launching{};
    begin();
    count_late<<<blocks, threads, 0, stream>>>(memory.moved, memory.twin);
    counting = end();
    CHECK(cudaGraphInstantiate(&launched, counting, cudaGraphInstantiateFlagDeviceLaunch));
    CHECK(cudaGraphUpload(launched, stream));
    CHECK(cudaMalloc(&handle, sizeof launched));
    CHECK(cudaMemcpy(handle, &launched, sizeof launched, cudaMemcpyHostToDevice));
    begin();
    launch_graph<<<1, 1, 0, stream>>>(handle, how);
    launching = end();
    CHECK(cudaGraphInstantiate(&launcher, launching, cudaGraphInstantiateFlagDeviceLaunch));
    CHECK(cudaGraphUpload(launcher, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  void begin() { CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)); }
  cudaGraph_t end() {
    cudaGraph_t graph{};
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
  }
  void launch() override {
    CHECK(cudaGraphLaunch(launcher, stream));
    // A launched graph must end before it is launched again, so only one round is in progress.
    CHECK(cudaStreamSynchronize(stream));
  }
  cudaGraphExec_t launched{}, launcher{};
  cudaGraphExec_t* handle = nullptr;
};

Work* make(const std::string& name, Memory memory) {
  if (name == "pdl") return new DependentLaunch(memory, true);
  if (name == "pdl-early-end") return new DependentLaunch(memory, false);
  if (name == "green") return new GreenContext(memory);
  if (name == "graph-fire-and-forget") return new DeviceGraph(memory, 0);
  if (name == "graph-tail") return new DeviceGraph(memory, 1);
  if (name == "graph-sibling") return new DeviceGraph(memory, 2);
  fail("newer_work", "pdl | pdl-early-end | green | graph-fire-and-forget | graph-tail | graph-sibling");
}

/// Gates rely on this: when a word written by the stream after a round arrives, the work of the
/// round is done. Compares the last word of the twin as read at that time.
bool is_done_before_word(Work& work, Words twin) {
  unsigned long long* seen = nullptr;
  CHECK(cudaHostAlloc(&seen, 2 * sizeof *seen, cudaHostAllocMapped));
  unsigned long long before = 0;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&before, twin + words - 1, sizeof before, cudaMemcpyDeviceToHost));
  cudaStream_t other{};
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  seen[0] = 0;
  work.launch();
  CHECK(cuStreamWriteValue64(work.stream, reinterpret_cast<CUdeviceptr>(&seen[0]), 1, 0));
  while (reinterpret_cast<std::atomic<unsigned long long>*>(&seen[0])->load() == 0) {
  }
  CHECK(cudaMemcpyAsync(&seen[1], twin + words - 1, sizeof *seen, cudaMemcpyDeviceToHost, other));
  CHECK(cudaStreamSynchronize(other));
  const bool done = seen[1] == before + work.counts_a_round;
  CHECK(cudaDeviceSynchronize());
  return done;
}

struct Moves {
  int moved = 0, busy = 0, live = 0;
};

/// Moves between two GPUs in both directions while the work continues. A failure ends the program.
Moves move_beside(Work& work, void* memory, unsigned long long& rounds) {
  Moves moves;
  std::atomic<bool> over{false};
  std::thread migrator([&] {
    CHECK(cudaSetDevice(0));
    for (int to = 1; !over; to = 1 - to) {
      vmart_migration* migration = nullptr;
      CHECK(vmart_migrate_async(memory, 0, 0, {VMART_GPU, to}, nullptr, &migration));
      const vmart_status status = vmart_migration_wait(migration);
      if (status == VMART_BUSY) {
        ++moves.busy;
      } else {
        check(status, "vmart_migration_wait");
        ++moves.moved;
      }
      vmart_migration_report report{};
      report.size_bytes = sizeof report;
      CHECK(vmart_migration_report_get(migration, &report));
      moves.live += report.chunks_live;
      vmart_migration_release(migration);
    }
  });
  const auto end = std::chrono::steady_clock::now() + playing_time;
  while (std::chrono::steady_clock::now() < end) {
    work.launch();
    if (++rounds % launched_ahead == 0) CHECK(cudaStreamSynchronize(work.stream));
  }
  CHECK(cudaStreamSynchronize(work.stream));
  over = true;
  migrator.join();
  return moves;
}

int run(const std::string& name) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < 2) {
    std::printf("skipped: this needs two GPUs\n");
    return exit_skipped;
  }
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  Memory memory;
  void* moved = nullptr;
  CHECK(vmart_alloc(bytes, {VMART_GPU, 0}, &moved));
  memory.moved = static_cast<Words>(moved);
  CHECK(cudaMalloc(&memory.twin, bytes));
  CHECK(cudaMemset(memory.moved, 0, bytes));
  CHECK(cudaMemset(memory.twin, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  Work& work = *make(name, memory);
  work.launch();
  unsigned long long rounds = 2;  // Including that of `is_done_before_word`.
  CHECK(cudaStreamSynchronize(work.stream));
  const bool in_order = is_done_before_word(work, memory.twin);
  CHECK(vmart_attach(work.stream));
  const Moves moves = move_beside(work, moved, rounds);
  CHECK(vmart_detach(work.stream));
  unsigned long long *wrong = nullptr, last = 0;
  CHECK(cudaMallocManaged(&wrong, sizeof *wrong));
  *wrong = 0;
  count_wrong<<<blocks, threads>>>(memory.moved, memory.twin, wrong);
  CHECK(cudaDeviceSynchronize());
  CHECK(vmart_read(memory.moved + words - 1, &last, sizeof last));
  const bool counted = last == rounds * work.counts_a_round;
  std::printf("%s: a word written behind a round arrives %s; %d moves (%d chunks live), %d busy, beside "
              "%llu rounds: %llu words wrong%s\n",
              name.c_str(), in_order ? "after its end" : "BEFORE ITS END", moves.moved, moves.live,
              moves.busy, rounds, *wrong, counted ? "" : ", and not as many counts as rounds");
  const bool moved_live = moves.moved > 0 && moves.live > 0;
  if (!moved_live) std::printf("%s: nothing moved live\n", name.c_str());
  return *wrong == 0 && counted && in_order && moved_live ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc > 1 ? argv[1] : "");
}
