#include "drifting_workers.hpp"

// Shows how to write a kernel for real and simulated GPUs.
#include "../tests/support/read_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

DriftingWorkers::DriftingWorkers(vma::Runtime& runtime, const Size& size)
    : runtime_(runtime), block_bytes_(size.chunks_a_block * size.chunk_bytes) {
  constexpr std::size_t workers_max = 4;
  for (const vma::Place at : runtime.places()) {
    if (at.kind != vma::Place::Kind::gpu || workers_.size() == workers_max) continue;
    Worker& worker = workers_.emplace_back();
    worker.gpu = at;
    worker.stream = runtime.make_stream(at);
    worker.sum = static_cast<std::uint64_t*>(
        runtime.alloc(sizeof(*worker.sum), at, {.tag = "sum", .zeroed = true, .movable = false}));
  }
  data_ = static_cast<std::byte*>(
      runtime.alloc(count() * block_bytes_, workers_.front().gpu,
                    {.chunk_bytes = size.chunk_bytes, .tag = "drifting", .zeroed = true}));
  for (std::size_t i = 1; i < count(); ++i) {
    runtime.migrate(data_, i * block_bytes_, block_bytes_, workers_[i].gpu);
  }
  for (std::size_t i = 0; i < count(); ++i) {
    threads_.emplace_back([this, i](const std::stop_token& stop) { work(i, stop); });
  }
}

DriftingWorkers::~DriftingWorkers() {
  threads_.clear();  // Stops and joins each thread.
  try {
    for (Worker& worker : workers_) {
      runtime_.destroy_stream(worker.stream);
      runtime_.free(worker.sum);
    }
    runtime_.free(data_);
  } catch (const vma::Error& error) {
    fmt::print(stderr, "{}\n", error.what());  // The runtime's destructor releases what it can.
  }
}

std::size_t DriftingWorkers::block_of(std::size_t worker) const {
  return (worker + phase_) % count();
}

void DriftingWorkers::work(std::size_t number, const std::stop_token& stop) try {
  // A stream stops at a gate only after everything launched before has run. So launches are short
  // and few are queued: the scheduler moves memory behind a backlog of 1 ms, but not of 10 ms.
  constexpr std::size_t launch_bytes_max = 256 << 20, launches_ahead = 2;
  const Worker& worker = workers_[number];
  const vma::LaunchShape shape = vma::read_shape();
  while (!stop.stop_requested()) {
    const std::byte* block = data_ + block_of(number) * block_bytes_;
    for (std::size_t at = 0, ahead = 0; at < block_bytes_; at += launch_bytes_max) {
      const std::size_t bytes = std::min(launch_bytes_max, block_bytes_ - at);
      const vma::Use use{block + at, bytes, worker.gpu};
      runtime_.launch_using(worker.stream, vma::read_kernel(), shape.grid, shape.block,
                            vma::read_arguments(block + at, bytes, 1, worker.sum), {&use, 1});
      if (++ahead % launches_ahead == 0) runtime_.synchronize(worker.stream);
    }
    runtime_.synchronize(worker.stream);
    bytes_read_ += block_bytes_;
  }
} catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  const std::lock_guard lock(mutex_);
  failed_ = true;
  worker_failed_.notify_all();
}

bool DriftingWorkers::run_until(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(mutex_);
  return !worker_failed_.wait_until(lock, end, [this] { return failed_; });
}

double DriftingWorkers::local_share() const {
  std::size_t local = 0;
  const std::vector<vma::Extent> extents = runtime_.where(data_);
  for (std::size_t i = 0; i < count(); ++i) {
    const std::size_t begin = block_of(i) * block_bytes_, end = begin + block_bytes_;
    for (const vma::Extent& extent : extents) {
      if (extent.at != workers_[i].gpu) continue;
      const std::size_t first = std::max(begin, extent.offset);
      const std::size_t last = std::min(end, extent.offset + extent.bytes);
      if (first < last) local += last - first;
    }
  }
  return static_cast<double>(local) / static_cast<double>(count() * block_bytes_);
}
