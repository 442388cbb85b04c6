#include "bench/calls/pool_cases.hpp"

#include "bench/harness/samples.hpp"

#include <benchmark/benchmark.h>

#include <exception>
#include <string>
#include <utility>

namespace vma {
namespace {

constexpr int batch_calls = 1000;

using MakeSubject = std::function<std::unique_ptr<PoolSubject>(int)>;

/// `other` is the distance to the stream that frees.
void run(benchmark::State& state, const MakeSubject& make, std::uint64_t bytes, int other) {
  static std::unique_ptr<PoolSubject> subject;  // Made by the first thread, for all of them.
  static std::string why_none;
  if (state.thread_index() == 0) {
    try {
      subject = make(state.threads() + other);
    } catch (const std::exception& error) {
      why_none = error.what();
    }
  }
  bool entered = false;
  for (auto _ : state) {  // The threads begin together.
    if (!subject) {
      state.SkipWithError(why_none.c_str());
      break;
    }
    if (!std::exchange(entered, true)) subject->enter_thread();
    subject->pairs(state.thread_index(), state.thread_index() + other, bytes, batch_calls);
  }
  state.counters["pair_s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * batch_calls,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  if (state.thread_index() == 0) subject.reset();
}

}  // namespace

void register_pool_cases(const std::string& name, const MakeSubject& make) {
  const auto add = [&](const std::string& what, std::uint64_t bytes, int threads, int other) {
    register_threads(
        name + what + std::to_string(threads) + "/" + std::to_string(bytes), threads, 100,
        [make, bytes, other](benchmark::State& state) { run(state, make, bytes, other); });
  };
  for (const std::uint64_t bytes : sizes_up_to_max({512, 65'536, mebibyte, 64 * mebibyte})) {
    add("/same_stream/threads", bytes, 1, 0);
    add("/same_stream/threads", bytes, 8, 0);
    add("/cross_stream/threads", bytes, 1, 1);
  }
}

}  // namespace vma
