// How long a launch takes in a loop that does nothing else. Its kernel does next to nothing, so that
// the GPU waits for launches. Prints JSON: the medians of windows of launches, in microseconds.
//
//   launch_loop SECONDS
#include "timing.cuh"

namespace {

constexpr int buffers = 6, launches = 20'000;
constexpr std::size_t buffer_bytes = std::size_t{4} << 20;

__global__ void touch(int* a, int* b, int value) {
  a[threadIdx.x] = b[threadIdx.x] + value;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  int* memory[buffers];
  for (int*& buffer : memory) CALL(cudaMalloc(&buffer, buffer_bytes));
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<double> windows;
  const double begin = now_s();
  while (windows.size() < 5 || now_s() - begin < seconds) {
    const double window = now_s();
    for (int i = 0; i < launches; ++i) {
      touch<<<1, 32, 0, stream>>>(memory[i % buffers], memory[(i + 1) % buffers], i);
    }
    CALL(cudaStreamSynchronize(stream));
    windows.push_back((now_s() - window) / launches * 1e6);
  }
  windows.erase(windows.begin(), windows.begin() + 2);  // The first load the kernel.
  std::printf("{\"launch_us\": %.4f, \"windows\": %zu}\n", median(windows), windows.size());
  return 0;
}
