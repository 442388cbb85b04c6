// How long cudaMalloc and cudaFree of 2 and of 64 MiB take together, after memory of that size was freed
// before. Prints JSON: medians in microseconds, also with a kernel between the two.
//
//   allocate_loop ROUNDS
#include "timing.cuh"

namespace {

__global__ void touch(char* memory) {
  memory[threadIdx.x] = 1;
}

double allocate_and_free(std::size_t size, int rounds, bool is_used) {
  std::vector<double> times;
  for (int i = 0; i < rounds + 10; ++i) {
    char* memory = nullptr;
    const double begin = now_s();
    CALL(cudaMalloc(&memory, size));
    const double between = now_s();
    if (is_used) {
      touch<<<1, 32>>>(memory);
      CALL(cudaDeviceSynchronize());
    }
    const double before = now_s();
    CALL(cudaFree(memory));
    if (i >= 10) times.push_back((between - begin + now_s() - before) * 1e6);
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  constexpr std::size_t small = std::size_t{2} << 20, large = std::size_t{64} << 20;
  CALL(cudaFree(nullptr));
  std::printf("{\"pair_2mib_us\": %.3f, ", allocate_and_free(small, rounds, false));
  std::printf("\"pair_64mib_us\": %.3f, ", allocate_and_free(large, rounds, false));
  std::printf("\"pair_2mib_used_us\": %.3f, ", allocate_and_free(small, rounds, true));
  std::printf("\"pair_64mib_used_us\": %.3f}\n", allocate_and_free(large, rounds, true));
  return 0;
}
