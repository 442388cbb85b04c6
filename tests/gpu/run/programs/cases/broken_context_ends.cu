// A kernel that writes to an address that is nobody's. The error is the one that the driver gives,
// it stays, later calls report it instead of hanging, and the process ends by itself within
// seconds, also beside moves. The program watches a copy of itself that does so.
#include "runtime_case.cuh"
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(unsigned* data, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    data[i] += 1;
}

static int break_it(double seconds) {
  RT(cudaSetDevice(0));
  constexpr size_t bytes = 8 * mib;
  unsigned *data, *other;
  RT(cudaMalloc(&data, bytes));
  RT(cudaMalloc(&other, bytes));
  cudaStream_t stream;
  RT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const double end = now() + seconds; now() < end;) {
    add<<<64, 256, 0, stream>>>(data, bytes / 4);
    RT(cudaMemcpyAsync(other, data, bytes, cudaMemcpyDeviceToDevice, stream));
    RT(cudaStreamSynchronize(stream));
  }
  add<<<1, 32, 0, stream>>>((unsigned*)0x7000000000ull, 32);
  const cudaError_t first = cudaStreamSynchronize(stream);
  void* pointer;
  const cudaError_t later[] = {cudaMalloc(&pointer, bytes),
                               cudaMemcpy(other, data, bytes, cudaMemcpyDeviceToDevice),
                               cudaDeviceSynchronize(), cudaFree(data)};
  std::printf("%s, later %s, %s, %s, %s\n", cudaGetErrorName(first), cudaGetErrorName(later[0]),
              cudaGetErrorName(later[1]), cudaGetErrorName(later[2]), cudaGetErrorName(later[3]));
  NEED(first == cudaErrorIllegalAddress, "the first error is %s", cudaGetErrorName(first));
  for (cudaError_t error : later)
    NEED(error == cudaErrorIllegalAddress, "a later error is %s", cudaGetErrorName(error));
  std::fflush(stdout);
  return 42;  // By exit handlers.
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "break") == 0) return break_it(limit_s() / 2);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "break", (char*)nullptr);
    _exit(99);
  }
  const double begin = now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    usleep(20000);
    if (now() - begin < limit_s() / 2 + 25) continue;
    kill(child, SIGKILL);
    NEED(false, "it did not end within 25 s of its error");
  }
  NEED(WIFEXITED(status) && WEXITSTATUS(status) == 42, "it ended with %x", status);
  std::printf("OK\n");
  return 0;
}
