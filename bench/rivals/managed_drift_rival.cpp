// Hot sets that drift, in managed memory: the driver moves pages to the GPUs that read them, with
// the load and the kernel of `placement/drift`. At most 8 GiB, which the GPUs hold together.

#include "base/executor.hpp"
#include "bench/placement/drift_load.hpp"
#include "bench/rivals/cuda_calls.hpp"
#include "bench/samples.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;
constexpr std::uint64_t launch_bytes_max = gibibyte / 4;
constexpr std::size_t gpus_max = 4;

constexpr const char* ptx =
#include "support/kernels/read_range.ptx.inc"
    ;

/// A GPU that reads its blocks in order, over and over, from a thread of its own.
class Reader {
 public:
  Reader(const DriftLoad& load, std::size_t number, CUdeviceptr data)
      : load_(load), number_(number), data_(data) {
    rival_machine().use(static_cast<int>(number));
    cuda().cuModuleLoadData(&module_, ptx);
    cuda().cuModuleGetFunction(&function_, module_, "vmart_read");
    cuda().cuMemAlloc(&sum_, sizeof(std::uint64_t));
    cuda().cuMemsetD32(sum_, 0, 2);
  }

  void start(Executor& executor, const std::atomic<std::size_t>& phase) {
    task_ = executor.spawn("managed_reader", [this, &phase] {
      try {
        rival_machine().use(static_cast<int>(number_));
        while (!stop_) round(phase);
      } catch (const std::exception&) {
        error_ = std::current_exception();
      }
    });
  }
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// Throws: what it failed with.
  void finish() {
    stop_ = true;
    task_->join();
    rival_machine().use(static_cast<int>(number_));
    cuda().cuMemFree(sum_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void round(std::size_t phase) {
    for (std::size_t block = 0; block < load_.blocks; ++block) {
      for (std::size_t pass = load_.passes(phase, number_, block); pass > 0; --pass) {
        for (std::uint64_t at = 0; at < load_.block_bytes; at += launch_bytes_max)
          launch(data_ + block * load_.block_bytes + at,
                 std::min(launch_bytes_max, load_.block_bytes - at));
        cuda().cuStreamSynchronize(rival_machine().gpus[number_].stream);
        bytes_read_ += load_.block_bytes;
        if (stop_) return;
      }
    }
  }
  void launch(CUdeviceptr begin, std::uint64_t bytes) {
    constexpr unsigned grid = 1056, block = 256;  // As `read_shape` has it.
    std::uint64_t pairs = bytes / 16, passes = 1;
    void* arguments[] = {&begin, &pairs, &passes, &sum_};
    cuda().cuLaunchKernel(function_, grid, 1, 1, block, 1, 1, 0,
                          rival_machine().gpus[number_].stream, arguments, nullptr);
  }

  const DriftLoad load_;
  const std::size_t number_;
  const CUdeviceptr data_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUdeviceptr sum_ = 0;
  std::unique_ptr<Task> task_;
  std::atomic<std::uint64_t> bytes_read_{0};
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;  // The reader's thread only, until it has ended.
};

using Readers = std::vector<std::unique_ptr<Reader>>;

std::uint64_t bytes_read(const Readers& readers) {
  std::uint64_t bytes = 0;
  for (const auto& reader : readers) bytes += reader->bytes_read();
  return bytes;
}

void wait(double seconds) {
  const Stopwatch watch;
  while (to_us(watch.elapsed()) < seconds * 1e6) std::this_thread::yield();
}

Sample drift(const DriftLoad& load) {
  // As long as `placement_bench` gives the scheduler with three seconds a case.
  constexpr double settling_s = 6, measured_s = 0.75;
  CUdeviceptr data = 0;
  rival_machine().use(0);
  cuda().cuMemAllocManaged(&data, load.bytes(), CU_MEM_ATTACH_GLOBAL);
  for (std::size_t block = 0; block < load.blocks; ++block) {  // The first touch is a GPU's.
    rival_machine().use(static_cast<int>(load.first_touch(block)));
    cuda().cuMemsetD32(data + block * load.block_bytes, 0, load.block_bytes / 4);
    cuda().cuCtxSynchronize();
  }
  ThreadedExecutor executor;
  std::atomic<std::size_t> phase{0};
  Readers readers;
  for (std::size_t i = 0; i < load.gpus; ++i)
    readers.push_back(std::make_unique<Reader>(load, i, data));
  for (const auto& reader : readers) reader->start(executor, phase);
  Sample sample;
  const Stopwatch all;
  for (; phase < load.gpus; ++phase) {
    wait(settling_s);
    const std::uint64_t before = bytes_read(readers);
    const Stopwatch watch;
    wait(measured_s);
    sample.counters["phase" + std::to_string(phase) + "_managed_gb_s"] =
        static_cast<double>(bytes_read(readers) - before) /
        static_cast<double>(watch.elapsed().count());
  }
  sample.wall = all.elapsed();
  for (const auto& reader : readers) reader->finish();
  rival_machine().use(0);
  cuda().cuMemFree(data);
  return sample;
}

void register_all() {
  const std::size_t gpus = std::min(gpus_max, rival_machine().gpus.size());
  if (gpus < 2) throw Unavailable{"what drifts between GPUs needs two"};
  const std::uint64_t most = setting("VMART_BENCH_BYTES_MAX", 16 * gibibyte);
  const DriftLoad load = drift_load(gpus, most);
  register_samples(
      "managed/drift/gpus" + std::to_string(gpus), [load] { return drift(load); }, 1);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
