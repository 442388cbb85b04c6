/* A CUDA program that knows nothing of vmart and calls the driver at random, from a seed. It prints
 * each call with its result, and what the calls answer, as far as CUDA determines that: no
 * addresses. So it prints the same under `vmart run` as without, wherever its memory is moved.
 *
 *   run_fuzz_program SEED CALLS THREADS linked|per_thread
 *
 * Each line begins with its thread. All uses of memory are ordered, one behind the other. */
#include "world.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  fuzz::Options options;
  options.seed = std::strtoull(argv[1], nullptr, 10);
  options.calls = std::atoi(argv[2]);
  options.threads = std::atoi(argv[3]);
  options.per_thread = std::strcmp(argv[4], "per_thread") == 0;
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  if (!fuzz::find_driver(options.per_thread) || fuzz::driver.f_cuInit(0) != CUDA_SUCCESS) return 3;
  std::vector<std::unique_ptr<fuzz::World>> worlds;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    worlds.push_back(std::make_unique<fuzz::World>(options, i));
    threads.emplace_back([&world = *worlds.back()] { world.play(); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
