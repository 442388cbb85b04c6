// Hot sets that drift, in managed memory: the driver migrates pages to the GPUs that read them,
// with the load, the steps and the kernel of `placement/drift`. At most 8 GiB, which the GPUs can
// hold together.

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "bench/placement/drift_load.hpp"
#include "bench/placement/launch_pace.hpp"
#include "bench/placement/steps.hpp"
#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t gpus_max = 4;

constexpr const char* ptx =
#include "support/kernels/read_range.ptx.inc"
    ;

/// State shared by all readers; outlives their threads.
struct Course {
  explicit Course(const DriftLoad& its_load) : load(its_load), steps(load.gpus, clock) {}

  const DriftLoad load;
  SteadyClock clock;
  Steps steps;
  std::atomic<std::size_t> phase{0};
  std::atomic<bool> stop{false};
};

/// A GPU that reads its blocks in order, step by step, on its own thread.
class Reader {
 public:
  Reader(Course& course, std::size_t number, CUdeviceptr data)
      : course_(course), number_(number), data_(data) {
    rival_machine().use(static_cast<int>(number));
    cuda().cuModuleLoadData(&module_, ptx);
    cuda().cuModuleGetFunction(&function_, module_, "vmart_read");
    cuda().cuMemAlloc(&sum_, sizeof(std::uint64_t));
    cuda().cuMemsetD32(sum_, 0, 2);
  }

  void start(Executor& executor) {
    task_ = executor.spawn("managed_reader", [this] { work(); });
  }
  /// Requires: the course is stopping. Throws: the error that it failed with.
  void finish() {
    task_->join();
    rival_machine().use(static_cast<int>(number_));
    cuda().cuMemFree(sum_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    try {
      rival_machine().use(static_cast<int>(number_));
      while (!course_.stop) {
        read_share(course_.phase);
        if (!course_.steps.finish_share()) return;
      }
    } catch (const std::exception&) {
      error_ = std::current_exception();
      course_.steps.end();  // Otherwise, the others would wait for this reader.
    }
  }
  /// Reads the share of a phase, or less if the phase ends. No move waits for these launches, so
  /// each is as long as the longest one of `placement/drift`.
  void read_share(std::size_t phase) {
    const DriftLoad& load = course_.load;
    std::uint64_t bytes = 0;  // Of the current batch.
    std::size_t launched = 0;
    for (std::size_t block = 0; block < load.blocks; ++block) {
      const std::uint64_t share = load.passes(phase, number_, block) * load.block_bytes;
      for (std::uint64_t done = 0; done < share;) {
        const std::uint64_t at = done % load.block_bytes;
        const std::uint64_t part = std::min(LaunchPace::launch_bytes_max, load.block_bytes - at);
        launch(data_ + block * load.block_bytes + at, part);
        done += part;
        bytes += part;
        if (++launched % LaunchPace::batch != 0) continue;
        end_batch(std::exchange(bytes, 0));
        if (course_.stop || course_.phase != phase) return;
      }
    }
    if (bytes > 0) end_batch(bytes);
  }
  void end_batch(std::uint64_t bytes) {
    cuda().cuStreamSynchronize(rival_machine().gpus[number_].stream);
    course_.steps.add(bytes);
  }
  void launch(CUdeviceptr begin, std::uint64_t bytes) {
    constexpr unsigned grid = 1056, block = 256;  // The same as `read_shape`.
    std::uint64_t pairs = bytes / 16, passes = 1;
    void* arguments[] = {&begin, &pairs, &passes, &sum_};
    cuda().cuLaunchKernel(function_, grid, 1, 1, block, 1, 1, 0,
                          rival_machine().gpus[number_].stream, arguments, nullptr);
  }

  Course& course_;
  const std::size_t number_;
  const CUdeviceptr data_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUdeviceptr sum_ = 0;
  std::unique_ptr<Task> task_;
  std::exception_ptr error_;  // Used only by the reader's thread until that has ended.
};

void wait(double seconds) {
  SteadyClock clock;
  const std::chrono::duration<double> time(seconds);
  poll_until(clock, clock.now() + std::chrono::duration_cast<TimePoint>(time),
             [] { return false; });
}

CUdeviceptr make_array(const DriftLoad& load) {
  CUdeviceptr data = 0;
  rival_machine().use(0);
  cuda().cuMemAllocManaged(&data, load.bytes(), CU_MEM_ATTACH_GLOBAL);
  for (std::size_t block = 0; block < load.blocks; ++block) {  // A GPU touches each block first.
    rival_machine().use(static_cast<int>(load.first_touch(block)));
    cuda().cuMemsetD32(data + block * load.block_bytes, 0, load.block_bytes / 4);
    cuda().cuCtxSynchronize();
  }
  return data;
}

Sample drift(const DriftLoad& load) {
  // The longest time that `placement_bench` gives the scheduler, with three seconds per case.
  constexpr double settling_s = 12, measured_s = 0.75;
  const CUdeviceptr data = make_array(load);
  Course course(load);
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Reader>> readers;
  for (std::size_t i = 0; i < load.gpus; ++i)
    readers.push_back(std::make_unique<Reader>(course, i, data));
  for (const auto& reader : readers) reader->start(executor);
  Sample sample;
  const Stopwatch all;
  for (std::size_t phase = 0; phase < load.gpus; ++phase) {
    course.phase = phase;
    wait(settling_s);
    course.steps.begin_look();
    wait(measured_s);
    sample.counters["phase" + std::to_string(phase) + "_managed_gb_s"] = course.steps.rate() * 1e-9;
  }
  sample.wall = all.elapsed();
  course.stop = true;
  course.steps.end();
  for (const auto& reader : readers) reader->finish();
  rival_machine().use(0);
  cuda().cuMemFree(data);
  return sample;
}

void register_all() {
  const std::size_t gpus = std::min(gpus_max, rival_machine().gpus.size());
  if (gpus < 2) throw Unavailable{"what drifts between GPUs needs two"};
  const DriftLoad load = drift_load(gpus, bytes_max());
  register_samples(
      "managed/drift/gpus" + std::to_string(gpus), [load] { return drift(load); }, 1);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
