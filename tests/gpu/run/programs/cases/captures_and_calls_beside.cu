// Captures that last: in each mode, with calls of the same thread and of another beside them. An
// allocation during a global capture ends it with the driver's error; during a relaxed one it is
// allowed; what another thread does harms no thread-local one; a capture that was given up leaves a
// stream that can capture again.
#include "runtime_case.cuh"
#include <unistd.h>

#include <atomic>
#include <thread>

__global__ void add(unsigned* data, size_t n, unsigned by) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    data[i] += by;
}

int main() {
  const double end = now() + limit_s();
  RT(cudaSetDevice(0));
  constexpr size_t bytes = 4 * mib, count = bytes / 4;
  unsigned *data, *host;
  RT(cudaMalloc(&data, bytes));
  RT(cudaMallocHost(&host, bytes));
  RT(cudaMemset(data, 0, bytes));
  RT(cudaDeviceSynchronize());
  cudaStream_t stream;
  RT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::atomic<bool> over{false}, beside{false};
  std::thread other([&] {  // Allocates and frees while `beside`.
    RT(cudaSetDevice(0));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    RT(cudaThreadExchangeStreamCaptureMode(
        &mode));  // Its calls are no business of captures elsewhere.
    while (!over) {
      if (beside) {
        void* pointer;
        RT(cudaMalloc(&pointer, 3 * mib));
        RT(cudaFree(pointer));
      }
      usleep(1000);
    }
  });
  unsigned expected = 0;
  int rounds = 0;
  cudaError_t first[2] = {};
  for (; now() < end || rounds < 6; ++rounds) {
    const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeThreadLocal,
                                           cudaStreamCaptureModeRelaxed,
                                           cudaStreamCaptureModeGlobal};
    const cudaStreamCaptureMode mode = modes[rounds % 3];
    beside = mode == cudaStreamCaptureModeThreadLocal;
    RT(cudaStreamBeginCapture(stream, mode));
    for (int k = 0; k < 20; ++k) {
      add<<<64, 256, 0, stream>>>(data, count, 1);
      usleep(3000);  // Long enough that something else happens meanwhile.
    }
    void* inside = nullptr;
    if (mode == cudaStreamCaptureModeRelaxed) RT(cudaMalloc(&inside, 3 * mib));
    cudaGraph_t graph = nullptr;
    if (mode == cudaStreamCaptureModeGlobal) {
      const cudaError_t allocation = cudaMalloc(&inside, 3 * mib);
      const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
      cudaGetLastError();
      if (rounds == 2) {
        first[0] = allocation;
        first[1] = ended;
        std::printf("in a global capture: %s, then %s\n", cudaGetErrorName(allocation),
                    cudaGetErrorName(ended));
      }
      NEED(allocation == first[0] && ended == first[1], "round %d: %s, then %s", rounds,
           cudaGetErrorName(allocation), cudaGetErrorName(ended));
      if (allocation == cudaSuccess) RT(cudaFree(inside));
      if (graph != nullptr) RT(cudaGraphDestroy(graph));
      continue;
    }
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    NEED(ended == cudaSuccess, "round %d: a capture of mode %d ends with %s", rounds, mode,
         cudaGetErrorName(ended));
    cudaGraphExec_t exec;
    RT(cudaGraphInstantiate(&exec, graph, 0));
    RT(cudaGraphLaunch(exec, stream));
    expected += 20;
    RT(cudaMemcpyAsync(host, data, bytes, cudaMemcpyDeviceToHost, stream));
    RT(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < count; i += 509)
      NEED(host[i] == expected, "round %d: word %zu is %u, not %u", rounds, i, host[i], expected);
    RT(cudaGraphExecDestroy(exec));
    RT(cudaGraphDestroy(graph));
    if (inside != nullptr) RT(cudaFree(inside));
  }
  over = true;
  other.join();
  std::fprintf(stderr, "%d rounds\n", rounds);
  std::printf("OK\n");
  return 0;
}
