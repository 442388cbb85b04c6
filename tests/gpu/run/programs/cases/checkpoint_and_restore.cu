// A process is checkpointed by the driver's own calls (what cuda-checkpoint does) while it works,
// and restored: it goes on with right results. The program watches a copy of itself. If the driver
// refuses without vmart, the case is left out.
#include "runtime_case.cuh"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void step(unsigned* to, const unsigned* from, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    to[i] = from[i] * 5u + 1u;
}

static int work(int out) {
  RT(cudaSetDevice(0));
  constexpr size_t bytes = 32 * mib, count = bytes / 4;
  unsigned *a, *b, *host = (unsigned*)std::malloc(bytes);
  RT(cudaMalloc(&a, bytes));
  RT(cudaMalloc(&b, bytes));
  RT(cudaMemset(a, 0, bytes));
  unsigned expected = 0;
  for (unsigned round = 0;; ++round) {
    step<<<128, 256>>>(b, a, count);
    step<<<128, 256>>>(a, b, count);
    expected = (expected * 5u + 1u) * 5u + 1u;
    RT(cudaMemcpy(host, a, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i += 1021)
      NEED(host[i] == expected, "round %u: word %zu is %x, not %x", round, i, host[i], expected);
    if (write(out, "r", 1) != 1) return 0;  // Nobody watches any more.
  }
}

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  if (argc > 2 && std::strcmp(argv[1], "work") == 0) return work(std::atoi(argv[2]));
  const double limit = limit_s();
  int pipes[2];
  NEED(pipe(pipes) == 0, "pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(pipes[0]);
    char number[16];
    std::snprintf(number, sizeof number, "%d", pipes[1]);
    execl("/proc/self/exe", argv[0], "work", number, (char*)nullptr);
    _exit(99);
  }
  close(pipes[1]);
  char byte;
  for (int i = 0; i < 5; ++i) NEED(read(pipes[0], &byte, 1) == 1, "the worker has ended");
  DR(cuInit(0));  // No context.
  int times = 0;
  const char* refused = nullptr;
  CUresult why = CUDA_SUCCESS;
  const double end = now() + limit;
  while (now() < end && times < 4 && refused == nullptr) {
    CUcheckpointLockArgs lock;
    std::memset(&lock, 0, sizeof lock);
    lock.timeoutMs = 8000;
    why = cuCheckpointProcessLock(child, &lock);
    if (why != CUDA_SUCCESS) {
      refused = "lock";
      break;
    }
    why = cuCheckpointProcessCheckpoint(child, nullptr);
    if (why != CUDA_SUCCESS) {
      refused = "checkpoint";
      cuCheckpointProcessUnlock(child, nullptr);
      break;
    }
    why = cuCheckpointProcessRestore(child, nullptr);
    NEED(why == CUDA_SUCCESS, "restore: %d", (int)why);
    DR(cuCheckpointProcessUnlock(child, nullptr));
    ++times;
    // What it wrote before, and then what it did since.
    for (int i = 0; i < 40; ++i)
      NEED(read(pipes[0], &byte, 1) == 1, "after checkpoint %d the worker has ended", times);
  }
  close(pipes[0]);
  int status = 0;
  for (int i = 0; i < 500 && waitpid(child, &status, WNOHANG) == 0; ++i) usleep(20000);
  if (refused != nullptr) {
    kill(child, SIGKILL);
    if (times == 0 && std::getenv("VMART_RUN_ACTIVE") == nullptr &&
        std::getenv("LD_PRELOAD") == nullptr) {
      std::printf("SKIP the driver refuses %s: %d\n", refused, (int)why);
      return 77;
    }
    NEED(false, "%s, after %d times: %d", refused, times, (int)why);
  }
  NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the worker ended with %x", status);
  std::fprintf(stderr, "%d checkpoints\n", times);
  std::printf("OK\n");
  return 0;
}
