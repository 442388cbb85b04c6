#include "hot_and_cold.hpp"

// Shows how to write a kernel for real and simulated GPUs.
#include "../tests/support/read_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

HotAndCold::HotAndCold(vma::Runtime& runtime, std::size_t bytes, std::size_t chunk_bytes,
                       const vma::Place* at)
    : runtime_(runtime), bytes_(bytes), hot_begin_(bytes / 5 * 4) {
  const vma::AllocOptions options{
      .chunk_bytes = chunk_bytes, .tag = "hot and cold", .zeroed = true};
  const vma::AllocOptions fixed{.tag = "sum", .zeroed = true, .movable = false};
  sum_ = static_cast<std::uint64_t*>(runtime.alloc(sizeof *sum_, vma::gpu(0), fixed));
  stream_ = runtime.make_stream(vma::gpu(0));
  data_ = static_cast<std::byte*>(at == nullptr ? runtime.alloc(bytes, options)
                                                : runtime.alloc(bytes, *at, options));
}

HotAndCold::~HotAndCold() {
  try {
    runtime_.destroy_stream(stream_);
    runtime_.free(data_);
    runtime_.free(sum_);
  } catch (const vma::Error& error) {
    fmt::print(stderr, "{}\n", error.what());  // The runtime's destructor releases what it can.
  }
}

void HotAndCold::read_range(std::size_t offset, std::size_t bytes) {
  // Several launches, so that the use of each part is recorded when it begins.
  constexpr std::size_t launch_bytes_max = 256 << 20;
  const vma::LaunchShape shape = vma::read_shape();
  for (const std::size_t end = offset + bytes; offset < end; offset += launch_bytes_max) {
    const vma::Use use{data_ + offset, std::min(launch_bytes_max, end - offset), vma::gpu(0)};
    runtime_.launch_using(stream_, vma::read_kernel(), shape.grid, shape.block,
                          vma::read_arguments(use.address, use.bytes, 1, sum_), {&use, 1});
  }
}

double HotAndCold::read(double hot_share, Seconds time) {
  const std::size_t hot_bytes = bytes_ - hot_begin_;
  // Bytes read from the rest per round, rounded to whole lines.
  const std::size_t line = 256;
  const auto cold_bytes = static_cast<std::size_t>(static_cast<double>(hot_bytes) *
                                                   (1 - hot_share) / hot_share / line) *
                          line;
  std::uint64_t read = 0;
  const auto begin = std::chrono::steady_clock::now();
  Seconds passed{0};
  for (; passed < time; passed = std::chrono::steady_clock::now() - begin) {
    read_range(hot_begin_, hot_bytes);
    for (std::size_t left = cold_bytes; left > 0;) {
      const std::size_t part = std::min(left, hot_begin_ - cold_at_);
      read_range(cold_at_, part);
      cold_at_ = (cold_at_ + part) % hot_begin_;
      left -= part;
    }
    runtime_.synchronize(stream_);
    read += hot_bytes + cold_bytes;
  }
  return static_cast<double>(read) / passed.count();
}

std::optional<HotAndCold::Seconds> HotAndCold::settle(double hot_share, Seconds time) {
  const auto begin = std::chrono::steady_clock::now();
  Seconds passed{0}, moved{0};
  std::uint64_t started = runtime_.scheduler_stats().moves_started;
  while (passed < 4 * time || (passed < 16 * time && passed < moved + time)) {
    read(hot_share, time / 16);
    passed = std::chrono::steady_clock::now() - begin;
    const vma::SchedulerStats stats = runtime_.scheduler_stats();
    const bool under_way = stats.moves_started > stats.moves_done + stats.moves_failed;
    if (under_way || stats.moves_started != started) moved = passed;
    started = stats.moves_started;
  }
  return passed < moved + time ? std::nullopt : std::optional(moved);
}

std::size_t HotAndCold::in_hbm(std::size_t begin, std::size_t end) const {
  std::size_t bytes = 0;
  for (const vma::Extent& extent : runtime_.where(data_)) {
    if (extent.at != vma::gpu(0)) continue;
    const std::size_t first = std::max(begin, extent.offset);
    const std::size_t last = std::min(end, extent.offset + extent.bytes);
    if (first < last) bytes += last - first;
  }
  return bytes;
}

HotAndCold::Shares HotAndCold::in_hbm() const {
  return {
      static_cast<double>(in_hbm(hot_begin_, bytes_)) / static_cast<double>(bytes_ - hot_begin_),
      static_cast<double>(in_hbm(0, hot_begin_)) / static_cast<double>(hot_begin_)};
}
