// GPU 1 reads 1 GiB that was allocated on GPU 0, again and again. Prints JSON: what a read of such memory on
// its own GPU comes to, then the rate of each read with the seconds since the first one.
//
//   far_reader SECONDS     needs two GPUs with peer access
#include "timing.cuh"

namespace {

constexpr std::size_t size_bytes = std::size_t{1} << 30;
constexpr std::size_t count = size_bytes / sizeof(uint4);
constexpr int reads_a_sample = 4;

__global__ void sum(const uint4* memory, std::size_t words, unsigned* result) {
  unsigned total = 0;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < words;
       i += stride) {
    const uint4 word = memory[i];
    total += word.x ^ word.y ^ word.z ^ word.w;
  }
  if (total == 0x12345678u) *result = total;  // So that the reads are not left out.
}

// Bytes per second.
double read(const uint4* memory, unsigned* result, cudaStream_t stream) {
  const double begin = now_s();
  for (int i = 0; i < reads_a_sample; ++i) sum<<<1056, 512, 0, stream>>>(memory, count, result);
  CALL(cudaStreamSynchronize(stream));
  return reads_a_sample * static_cast<double>(size_bytes) / (now_s() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 6;
  uint4 *far = nullptr, *near = nullptr;
  unsigned* result = nullptr;
  CALL(cudaSetDevice(0));
  CALL(cudaMalloc(&far, size_bytes));
  CALL(cudaMemset(far, 1, size_bytes));
  CALL(cudaDeviceSynchronize());
  CALL(cudaSetDevice(1));
  CALL(cudaDeviceEnablePeerAccess(0, 0));
  CALL(cudaMalloc(&near, size_bytes));
  CALL(cudaMalloc(&result, sizeof *result));
  CALL(cudaMemset(near, 1, size_bytes));
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<double> local;
  for (int i = 0; i < 50; ++i) local.push_back(read(near, result, stream));
  CALL(cudaFree(near));
  std::printf("{\"local_bytes_s\": %.6g, \"reads\": [", median(local));
  const double begin = now_s();
  for (bool first = true; now_s() - begin < seconds; first = false) {
    const double rate = read(far, result, stream);
    std::printf("%s[%.4f, %.6g]", first ? "" : ", ", now_s() - begin, rate);
  }
  std::printf("]}\n");
  return 0;
}
