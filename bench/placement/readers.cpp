#include "bench/placement/readers.hpp"

#include "base/clock.hpp"
#include "service/runtime_parts.hpp"
#include "support/read_kernel.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace vma {

Readers::Readers(Runtime& runtime, void* data, const std::vector<Location>& gpus)
    : runtime_(runtime), data_(static_cast<std::byte*>(data)) {
  static ThreadedExecutor executor;
  AllocOptions fixed;
  fixed.movable = false;
  fixed.zeroed = true;
  for (const Location at : gpus) {
    Reader& reader = readers_.emplace_back();
    reader.gpu = at;
    reader.stream = runtime.make_stream(at);
    // First: where the GPU is full, the sum makes others move.
    reader.attached = std::make_unique<AttachedStream>(runtime, reader.stream);
    reader.sum = static_cast<std::uint64_t*>(runtime.alloc(sizeof *reader.sum, at, fixed));
  }
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    readers_[i].task = executor.spawn("bench_reader", [this, i] { work(i); });
  }
}

Readers::~Readers() {
  stop_ = true;
  for (Reader& reader : readers_) reader.task->join();
  try {
    for (Reader& reader : readers_) {
      reader.attached.reset();
      runtime_.destroy_stream(reader.stream);
      runtime_.free(reader.sum);
    }
  } catch (const std::exception&) {  // The benchmark has failed already and says why.
  }
}

void Readers::set_ranges(std::vector<std::vector<ReadRange>> ranges) {
  auto shared = std::make_shared<const std::vector<std::vector<ReadRange>>>(std::move(ranges));
  const MutexLock lock(mutex_);
  ranges_ = std::move(shared);
}

std::shared_ptr<const std::vector<std::vector<ReadRange>>> Readers::ranges() const {
  const MutexLock lock(mutex_);
  return ranges_;
}

double Readers::rate(std::chrono::duration<double> time) {
  Clock& clock = runtime_.parts().driver->clock();
  const TimePoint begin = clock.now();
  const std::uint64_t before = bytes_read_;
  SteadyClock processor;
  const auto end = processor.now() + std::chrono::duration_cast<TimePoint>(time);
  poll_until(processor, end, [this] { return failed_ != 0; });
  const std::uint64_t read = bytes_read_ - before;
  const TimePoint passed = clock.now() - begin;
  if (failed_ != 0) std::rethrow_exception(readers_[failed_ - 1].error);
  return static_cast<double>(read) / std::chrono::duration<double>(passed).count();
}

void Readers::work(std::size_t number) {
  try {
    while (!stop_) read(number);
  } catch (...) {
    readers_[number].error = std::current_exception();
    failed_ = number + 1;
  }
}

/// Its ranges once, or as far as they are not changed.
void Readers::read(std::size_t number) {
  constexpr std::size_t batch = 8;  // Launches that are under way at once.
  // Short ones, so that the streams soon stand when they are asked to.
  constexpr std::uint64_t launch_bytes_max = std::uint64_t{256} << 20;
  const auto all = ranges();
  if (!all || (*all)[number].empty()) {
    std::this_thread::yield();
    return;
  }
  const Reader& reader = readers_[number];
  const LaunchShape shape = read_shape();
  std::uint64_t bytes = 0;
  std::size_t launched = 0;
  for (ReadRange left : (*all)[number]) {
    while (left.bytes > 0) {
      const Use use{data_ + left.offset, std::min(left.bytes, launch_bytes_max), reader.gpu};
      runtime_.launch_using(reader.stream, read_kernel(), shape.grid, shape.block,
                            read_arguments(use.address, use.bytes, 1, reader.sum), {&use, 1});
      left = {left.offset + use.bytes, left.bytes - use.bytes};
      bytes += use.bytes;
      if (++launched % batch != 0) continue;
      runtime_.synchronize(reader.stream);
      bytes_read_ += std::exchange(bytes, 0);
      if (stop_ || ranges() != all) return;
    }
  }
  runtime_.synchronize(reader.stream);
  bytes_read_ += bytes;
}

}  // namespace vma
