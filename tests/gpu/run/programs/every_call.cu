// A program of CUDA's runtime that knows nothing of vmart and calls much of it: copies of all kinds,
// textures, graphs, pools, managed and registered memory, a context of its own, 40 streams, a fork and
// resets. Whole numbers only, so that what it prints is the same in each run. The sections are in
// every_call_*.cuh.
//
//   every_call SECONDS     repeats all sections for so long; prints what the first round came to
#include "every_call_memory.cuh"
#include "every_call_work.cuh"

#include <chrono>
#include <string>

namespace {

struct Section {
  const char* name;
  Sum (*run)();
};

constexpr Section sections[] = {
    {"linear copies", linear_copies},   {"pitched copies", pitched_copies},
    {"arrays", arrays_and_textures},    {"symbols", symbols},
    {"managed", managed},               {"registered", registered},
    {"pools", pools},                   {"many sizes", many_sizes},
    {"streams", forty_streams},         {"captured graph", captured_graph},
    {"built graph", built_graph},       {"callbacks", callbacks},
    {"own context", own_context},       {"two GPUs", two_gpus},
    {"threads", threads},               {"fork", fork_and_exec},
};

std::string one_round() {
  std::string text;
  for (const Section& section : sections) {
    char line[96];
    std::snprintf(line, sizeof line, "%-16s %016llx\n", section.name, section.run());
    text += line;
    CALL(cudaDeviceSynchronize());
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::string first;
  int rounds = 0;
  for (; rounds < 2 || passed() < seconds; ++rounds) {
    const std::string result = one_round();
    if (rounds == 0) first = result;
    if (result != first) {
      std::printf("round %d:\n%snot as round 0:\n%s", rounds, result.c_str(), first.c_str());
      return 1;
    }
    if (rounds % 3 == 1) CALL(cudaDeviceReset());
  }
  std::printf("%s", first.c_str());
  std::fprintf(stderr, "%d rounds\n", rounds);
  CALL(cudaDeviceReset());
  return 0;
}
