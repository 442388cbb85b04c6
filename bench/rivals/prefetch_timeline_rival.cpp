// The progress of one stream over time while managed memory that it uses is prefetched to another
// GPU. Kernels, size and looks are those of live/timeline in live_bench. Both GPUs are declared to
// access the range, so that no page follows the kernel back.

#include "base/executor.hpp"
#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t tiles = 16;
constexpr std::uint64_t tile_words = mebibyte / 4 / 8;
constexpr std::uint64_t touches = 4;
constexpr std::uint64_t kernel_ns = 10'000;
constexpr std::uint64_t backlog = 4;
constexpr std::chrono::milliseconds look_period(1);

constexpr const char* ptx =
#include "bench/live/kernels/writer.ptx.inc"
    ;

CUmemLocation place_of(int ordinal) {
  CUmemLocation place = {};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = rival_machine().gpus.at(static_cast<std::size_t>(ordinal)).device;
  return place;
}

void prefetch(CUdeviceptr begin, std::uint64_t bytes, int to) {
  const CUstream stream = rival_machine().gpus.at(static_cast<std::size_t>(to)).stream;
  rival_machine().use(to);
#if CUDA_VERSION >= 13000
  cuda().cuMemPrefetchAsync(begin, bytes, place_of(to), 0, stream);
#else
  cuda().cuMemPrefetchAsync(begin, bytes, place_of(to).id, stream);
#endif
  cuda().cuStreamSynchronize(stream);
}

void declare_access(CUdeviceptr begin, std::uint64_t bytes, int by) {
#if CUDA_VERSION >= 13000
  cuda().cuMemAdvise(begin, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, place_of(by));
#else
  cuda().cuMemAdvise(begin, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, place_of(by).id);
#endif
}

/// A stream of GPU 0 that calls of `step` keep busy.
class Writer {
 public:
  Writer(CUdeviceptr begin, std::uint64_t bytes) : begin_(begin), stride_words_(bytes / tiles / 8) {
    rival_machine().use(0);
    cuda().cuModuleLoadData(&module_, ptx);
    cuda().cuModuleGetFunction(&function_, module_, "vmart_bench_write");
    void* word = nullptr;
    cuda().cuMemHostAlloc(&word, sizeof(std::uint64_t), CU_MEMHOSTALLOC_PORTABLE);
    progress_ = static_cast<std::uint64_t*>(word);
    *progress_ = 0;
  }

  std::uint64_t completed() const {
    return std::atomic_ref<std::uint64_t>(*progress_).load(std::memory_order_acquire);
  }

  void step() {
    if (launched_ - completed() >= backlog) return;
    std::uint64_t places = tiles, place_words = std::min(tile_words, stride_words_);
    std::uint64_t stride_words = stride_words_, touched = touches, time = kernel_ns;
    std::uint64_t number = ++launched_;
    void* arguments[] = {&begin_,  &places, &stride_words, &place_words,
                         &touched, &time,   &progress_,    &number};
    cuda().cuLaunchKernel(function_, 1, 1, 1, touches, 1, 1, 0, stream(), arguments, nullptr);
  }

  void finish() {
    cuda().cuStreamSynchronize(stream());
    cuda().cuMemFreeHost(progress_);
  }

 private:
  static CUstream stream() { return rival_machine().gpus.front().stream; }

  CUdeviceptr begin_;
  std::uint64_t stride_words_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  std::uint64_t* progress_ = nullptr;
  std::uint64_t launched_ = 0;
};

/// Steps the writer and looks at it once per period, like `RateLog`.
class Looks {
 public:
  explicit Looks(Writer& writer) : writer_(writer) {}

  template <typename Condition>
  void until(Condition done) {
    while (!done()) {
      writer_.step();
      const auto now = watch_.elapsed();
      if (now - last_ < look_period) continue;
      const std::uint64_t completed = writer_.completed();
      at_ms_.push_back(to_us(now) / 1e3);
      per_ms_.push_back(static_cast<double>(completed - completed_) / (to_us(now - last_) / 1e3));
      last_ = now;
      completed_ = completed;
    }
  }
  double now_ms() const { return to_us(watch_.elapsed()) / 1e3; }
  void add_to(Sample& sample) const {
    sample.series["at_ms"] = at_ms_;
    sample.series["launches_per_ms"] = per_ms_;
  }

 private:
  Writer& writer_;
  Stopwatch watch_;
  std::chrono::nanoseconds last_{0};
  std::uint64_t completed_ = 0;
  std::vector<double> at_ms_, per_ms_;
};

Sample timeline(std::uint64_t bytes) {
  constexpr double begin_ms = 500, end_ms = 2000;
  CUdeviceptr begin = 0;
  rival_machine().use(0);
  cuda().cuMemAllocManaged(&begin, bytes, CU_MEM_ATTACH_GLOBAL);
  prefetch(begin, bytes, 0);
  rival_machine().use(0);
  fill_words(begin, bytes, 1);
  declare_access(begin, bytes, 0);
  declare_access(begin, bytes, 1);
  prefetch(begin, bytes, 1);
  prefetch(begin, bytes, 0);

  ThreadedExecutor executor;
  std::atomic<bool> moved{false};
  std::exception_ptr error;
  Writer writer(begin, bytes);
  Looks looks(writer);
  Sample sample;
  looks.until([&] { return looks.now_ms() >= begin_ms; });
  sample.counters["begin_ms"] = looks.now_ms();
  const Stopwatch watch;
  const std::unique_ptr<Task> migrator = executor.spawn("prefetch", [&] {
    try {
      prefetch(begin, bytes, 1);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    moved = true;
  });
  looks.until([&] { return moved.load(); });
  migrator->join();
  sample.wall = watch.elapsed();
  sample.counters["end_ms"] = looks.now_ms();
  looks.until([&] { return looks.now_ms() >= end_ms; });
  writer.finish();
  cuda().cuMemFree(begin);
  if (error) std::rethrow_exception(error);
  looks.add_to(sample);
  return sample;
}

void register_all() {
  if (rival_machine().gpus.size() < 2) throw Unavailable{"prefetch between GPUs needs two"};
  const std::uint64_t bytes = sizes_up_to_max({4 * gibibyte}).front();
  register_samples(
      "live/timeline/prefetch/" + size_label(bytes), [bytes] { return timeline(bytes); }, 1);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
