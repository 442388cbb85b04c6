// What a guard adds to a copy: a call of a function that does nothing in the place of the driver's,
// without and with its guard; from one thread, and from two that count in the same word.
#include "guards/driver_guards.hpp"

#include <benchmark/benchmark.h>

#include <dlfcn.h>

#include <cstddef>

/// Found by the driver's name.
__attribute__((visibility("default"), noinline)) int copy_nothing(
    unsigned long long target, unsigned long long source, std::size_t bytes,
    void* stream) __asm__("cuMemcpyAsync");
int copy_nothing(unsigned long long target, unsigned long long, std::size_t, void*) {
  benchmark::DoNotOptimize(target);
  return 0;
}

namespace vma {
namespace {

using Copy = int (*)(unsigned long long, unsigned long long, std::size_t, void*);

int finds_nothing(const char*, void**, int, unsigned long long, int*) {
  return 500;  // CUDA_ERROR_NOT_FOUND
}

Copy guarded() {
  static const DriverGuards* const guards = [] {
    auto* const made = new DriverGuards(dlopen(nullptr, RTLD_NOW | RTLD_LOCAL),
                                        reinterpret_cast<void*>(&finds_nothing));
    made->publish();
    return made;
  }();
  const auto* const function = reinterpret_cast<const void*>(&copy_nothing);
  return reinterpret_cast<Copy>(const_cast<void*>(guards->guard_of(function)));
}

void call(benchmark::State& state, Copy copy) {
  if (copy == nullptr) return state.SkipWithError("the copy has no guard");
  for (auto _ : state) benchmark::DoNotOptimize(copy(1, 2, 3, nullptr));
}

Copy volatile bare = &copy_nothing;

void bare_copy(benchmark::State& state) {
  call(state, bare);
}
void guarded_copy(benchmark::State& state) {
  call(state, guarded());
}
BENCHMARK(bare_copy);
BENCHMARK(guarded_copy)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace vma

BENCHMARK_MAIN();
