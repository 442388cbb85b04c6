// What many migrations cost that are submitted together and wait for their turn: as one group, and
// with a call for each. All go between two GPUs and back. The time is from the first call to the
// last end. On a machine with small chunks, such as sim:test-2, it is what vmart itself takes.

#include "bench/harness/machine.hpp"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// Processor time of all threads, which does not depend on other load.
double process_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// So many allocations of one chunk each, of the smallest size.
class QueuedRig {
 public:
  explicit QueuedRig(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      pointers_.push_back(shared_runtime().alloc(1, here_));
    }
    move(true);  // From here on the caches have the chunks of both sides.
    move(true);
  }
  ~QueuedRig() {
    for (void* const pointer : pointers_) shared_runtime().free(pointer);
  }
  QueuedRig(const QueuedRig&) = delete;
  QueuedRig& operator=(const QueuedRig&) = delete;

  Sample move(bool together) {
    std::swap(here_, there_);
    Sample sample;
    const double cpu_begin = process_ns();
    const Stopwatch watch;
    if (together) {
      std::vector<MoveRequest> requests;
      for (void* const pointer : pointers_) requests.push_back({.pointer = pointer, .to = here_});
      shared_runtime().migrate_async(requests).wait();
    } else {
      std::vector<Migration> moves;
      for (void* const pointer : pointers_) {
        moves.push_back(shared_runtime().migrate_async(pointer, here_));
      }
      for (const Migration& move : moves) move.wait();
    }
    sample.wall = watch.elapsed();
    const auto count = static_cast<double>(pointers_.size());
    sample.counters["each_us"] = to_us(sample.wall) / count;
    sample.counters["each_cpu_us"] = (process_ns() - cpu_begin) / 1e3 / count;
    return sample;
  }

  std::uint64_t count() const { return pointers_.size(); }

 private:
  Place here_ = gpu(0), there_ = gpu(1);
  std::vector<void*> pointers_;
};

void register_all(std::unique_ptr<QueuedRig>& current) {
  const std::uint64_t count_max = setting("VMART_BENCH_MOVES", 10'000);
  for (const std::uint64_t wanted : {1'000, 2'000, 10'000}) {
    const std::uint64_t count = std::min(wanted, count_max);
    for (const bool together : {true, false}) {
      const std::string how = together ? "group/" : "single/";
      register_samples("queued/" + how + std::to_string(count), [&current, count, together] {
        if (!current || current->count() != count) {
          current.reset();
          current = std::make_unique<QueuedRig>(count);
        }
        return current->move(together);
      });
    }
    if (count == count_max) break;
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  std::unique_ptr<vma::QueuedRig> current;
  const int status = vma::run_benchmarks(argc, argv, [&] { vma::register_all(current); });
  current.reset();
  vma::close_shared_runtime();
  return status;
}
