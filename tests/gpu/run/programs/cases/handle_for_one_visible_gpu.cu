// A trainer that sees both GPUs gives an inference worker a handle of memory that it allocated on
// GPU 1; the worker sees GPU 1 only (CUDA_VISIBLE_DEVICES=1), where it is number 0. On the driver
// that works; where the memory lies at the moment is nothing that either of them knows. The program
// starts itself as worker, and again for each exchange.
#include "case.cuh"

#include <sys/wait.h>
#include <unistd.h>

#include <vector>

constexpr size_t bytes = 16 * mib;

static int work(int from, int to) {
  start();
  NEED(gpu_count == 1, "the worker sees %d GPUs", gpu_count);
  CUipcMemHandle handle;
  for (;;) {
    const ssize_t size = read(from, &handle, sizeof handle);
    if (size == 0) return 0;
    NEED(size == (ssize_t)sizeof handle, "the worker reads %zd bytes", size);
    CUdeviceptr data, own;
    DR(cuIpcOpenMemHandle(&data, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    DR(cuMemAlloc(&own, bytes));
    DR(cuMemcpyDtoD(own, data, bytes));
    std::vector<unsigned> shown(bytes / 4);
    DR(cuMemcpyDtoH(shown.data(), own, bytes));
    for (size_t i = 0; i < shown.size(); i += 511)
      NEED(shown[i] == shown[0], "word %zu is %x, the first %x", i, shown[i], shown[0]);
    DR(cuMemsetD32(data, shown[0] + 1, bytes / 4));
    DR(cuCtxSynchronize());
    DR(cuIpcCloseMemHandle(data));
    DR(cuMemFree(own));
    NEED(write(to, shown.data(), 4) == 4, "write");
  }
}

int main(int argc, char** argv) {
  if (argc > 3 && std::strcmp(argv[1], "work") == 0)
    return work(std::atoi(argv[2]), std::atoi(argv[3]));
  const double end = now() + limit_s();
  int there[2], back[2];
  NEED(pipe(there) == 0 && pipe(back) == 0, "pipe");
  const pid_t child = fork();
  if (child == 0) {
    const char* seen = std::getenv("CUDA_VISIBLE_DEVICES");
    const char* second = seen != nullptr ? std::strchr(seen, ',') : nullptr;
    setenv("CUDA_VISIBLE_DEVICES", second != nullptr ? second + 1 : "1", 1);
    close(there[1]);
    close(back[0]);
    char a[16], b[16];
    std::snprintf(a, sizeof a, "%d", there[0]);
    std::snprintf(b, sizeof b, "%d", back[1]);
    execl("/proc/self/exe", argv[0], "work", a, b, (char*)nullptr);
    _exit(99);
  }
  close(there[0]);
  close(back[1]);
  start();
  if (gpu_count < 2) return skip("needs 2 GPUs");
  DR(cuCtxSetCurrent(contexts[1]));
  unsigned rounds = 0;
  for (; now() < end || rounds < 3; ++rounds) {
    CUdeviceptr data;
    DR(cuMemAlloc(&data, bytes));
    const unsigned word = 100 * rounds + 7;
    DR(cuMemsetD32(data, word, bytes / 4));
    DR(cuCtxSynchronize());
    CUipcMemHandle handle;
    DR(cuIpcGetMemHandle(&handle, data));
    usleep(20000);  // It may move now.
    NEED(write(there[1], &handle, sizeof handle) == (ssize_t)sizeof handle, "write");
    unsigned seen = 0;
    NEED(read(back[0], &seen, 4) == 4, "round %u: the worker has ended", rounds);
    NEED(seen == word, "round %u: the worker saw %u, not %u", rounds, seen, word);
    unsigned shown[4];
    DR(cuMemcpyDtoH(shown, data + bytes - sizeof shown, sizeof shown));
    NEED(shown[0] == word + 1, "round %u: after the worker's write: %u", rounds, shown[0]);
    DR(cuMemFree(data));
  }
  close(there[1]);
  int status = 0;
  waitpid(child, &status, 0);
  NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the worker ended with %x", status);
  std::fprintf(stderr, "%u rounds\n", rounds);
  std::printf("OK\n");
  return 0;
}
