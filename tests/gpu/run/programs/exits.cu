// A program of CUDA's runtime whose threads still work when main returns. run_exits.py moves its
// memory meanwhile, and ends it in all ways.
//
//   exits linked WORK     WORK: launching (threads launch and wait) or daemons (they also copy,
//   allocate,
//                         create streams and capture); stops at the end of standard input
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace {

constexpr size_t bytes = 16 << 20;
unsigned* memory[4];

__global__ void add(unsigned* data, size_t count) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
       i += gridDim.x * static_cast<size_t>(blockDim.x)) {
    data[i] += 1;
  }
}

/* Nothing checks the codes: from some moment on, there is no driver. */
[[noreturn]] void launch(int number) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (;;) {
    add<<<64, 256, 0, number % 2 == 0 ? stream : nullptr>>>(memory[number], bytes / 4);
    cudaStreamSynchronize(number % 2 == 0 ? stream : nullptr);
  }
}

[[noreturn]] void do_everything(int number) {
  cudaStream_t stream = nullptr;
  static unsigned char host[1 << 20];
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (;;) {
    void* made = nullptr;
    cudaStream_t other = nullptr;
    cudaGraph_t graph = nullptr;
    cudaMemcpyAsync(host, memory[number], sizeof host, cudaMemcpyDeviceToHost, stream);
    cudaMemset(memory[number], 1, 4096);
    if (cudaMalloc(&made, 4 << 20) == cudaSuccess) cudaFree(made);
    if (cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess) {
      add<<<8, 256, 0, other>>>(memory[number], 4096);
      cudaStreamDestroy(other);
    }
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess) {
      add<<<8, 256, 0, stream>>>(memory[number], 4096);
      if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    }
    cudaStreamSynchronize(stream);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool all = argc > 2 && std::strcmp(argv[2], "daemons") == 0;
  for (unsigned*& each : memory) {
    if (cudaMalloc(&each, bytes) != cudaSuccess) return 1;
    cudaMemset(each, 0, bytes);
  }
  cudaDeviceSynchronize();
  for (int i = 0; i < 4; ++i) std::thread(all && i >= 2 ? do_everything : launch, i).detach();
  std::printf("ready\n");
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1) {
  }
  std::printf("sum 0\n");
  return 0;
}
