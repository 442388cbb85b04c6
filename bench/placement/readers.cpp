#include "bench/placement/readers.hpp"

#include "base/clock.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/read_kernel.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace vma {

Readers::Readers(Runtime& runtime, void* data, const std::vector<Place>& gpus)
    : runtime_(runtime),
      data_(static_cast<std::byte*>(data)),
      steps_(gpus.size(), parts_of(runtime).driver->clock()) {
  static ThreadedExecutor executor;
  AllocOptions fixed;
  fixed.movable = false;
  fixed.zeroed = true;
  for (const Place at : gpus) {
    Reader& reader = readers_.emplace_back();
    reader.gpu = at;
    reader.stream = runtime.make_stream(at);
    // Attached first: if the GPU is full, allocating the sum evicts memory, which needs an attached
    // stream.
    reader.attached = std::make_unique<AttachedStream>(runtime, reader.stream);
    reader.sum = static_cast<std::uint64_t*>(runtime.alloc(sizeof *reader.sum, at, fixed));
  }
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    readers_[i].task = executor.spawn("bench_reader", [this, i] { work(i); });
  }
}

Readers::~Readers() {
  stop_ = true;
  steps_.end();
  for (Reader& reader : readers_) reader.task->join();
  try {
    for (Reader& reader : readers_) {
      reader.attached.reset();
      runtime_.destroy_stream(reader.stream);
      runtime_.free(reader.sum);
    }
  } catch (const std::exception&) {  // The benchmark has already failed and reported why.
  }
}

void Readers::set_ranges(Shares ranges) {
  auto shared = std::make_shared<const Shares>(std::move(ranges));
  const MutexLock lock(mutex_);
  ranges_ = std::move(shared);
}

std::shared_ptr<const Shares> Readers::ranges() const {
  const MutexLock lock(mutex_);
  return ranges_;
}

double Readers::rate(std::chrono::duration<double> time) {
  constexpr auto patience = std::chrono::seconds(10);
  SteadyClock processor;
  steps_.begin_look();
  const auto end = processor.now() + std::chrono::duration_cast<TimePoint>(time);
  poll_until(processor, end, [this] { return failed_ != 0; });
  poll_until(processor, processor.now() + patience,
             [this] { return failed_ != 0 || steps_.has_rate(); });
  if (failed_ != 0) std::rethrow_exception(readers_[failed_ - 1].error);
  return steps_.rate();
}

void Readers::work(std::size_t number) {
  try {
    while (!stop_) {
      const std::shared_ptr<const Shares> all = ranges();
      if (!all) {
        std::this_thread::yield();
        continue;
      }
      read_share(readers_[number], (*all)[number], *all);
      if (!steps_.finish_share()) return;
    }
  } catch (...) {
    readers_[number].error = std::current_exception();
    failed_ = number + 1;
    steps_.end();  // Otherwise, the others would wait for this reader.
  }
}

/// Reads the share once, or until `all` is replaced.
void Readers::read_share(Reader& reader, const std::vector<ReadRange>& share, const Shares& all) {
  const LaunchShape shape = read_shape();
  const SteadyClock processor;
  TimePoint begin = processor.now();
  std::uint64_t bytes = 0;  // Of the current batch.
  std::size_t launched = 0;
  for (ReadRange left : share) {
    while (left.bytes > 0) {
      const Use use{data_ + left.offset, std::min(left.bytes, reader.pace.launch_bytes()),
                    reader.gpu};
      runtime_.launch_using(reader.stream, read_kernel(), shape.grid, shape.block,
                            read_arguments(use.address, use.bytes, 1, reader.sum), {&use, 1});
      left = {left.offset + use.bytes, left.bytes - use.bytes};
      bytes += use.bytes;
      if (++launched % LaunchPace::batch != 0) continue;
      end_batch(reader, std::exchange(bytes, 0), begin);
      begin = processor.now();
      if (stop_ || ranges().get() != &all) return;
    }
  }
  if (bytes > 0) end_batch(reader, bytes, begin);
}

void Readers::end_batch(Reader& reader, std::uint64_t bytes, TimePoint begin) {
  runtime_.synchronize(reader.stream);
  steps_.add(bytes);
  reader.pace.adapt(bytes, SteadyClock().now() - begin);
}

}  // namespace vma
