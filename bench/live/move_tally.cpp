#include "bench/live/move_tally.hpp"

#include <algorithm>
#include <stdexcept>

namespace vma {
namespace {

double to_gb_s(std::uint64_t bytes, std::chrono::nanoseconds time) {
  return time.count() > 0 ? static_cast<double>(bytes) / static_cast<double>(time.count()) : 0;
}

/// Reasons that are a single word belong to gates that were given up; sentences describe the way
/// taken.
bool is_refusal(const std::string& reason) {
  return std::ranges::all_of(reason, [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
}

std::vector<double> to_series(const std::vector<std::chrono::nanoseconds>& values) {
  std::vector<double> series;
  for (const std::chrono::nanoseconds value : values) series.push_back(to_us(value));
  return series;
}

}  // namespace

void MoveTally::add(const MigrationReport& report) {
  count(report);
  wall_.push_back(report.wall);
  wall_sum_ += report.wall;
  bytes_moved_ += report.bytes_moved;
  if (report.stall.count == 1 || report.chunks_moved == 1) {
    stall_.push_back(report.stall.max);
    skew_.push_back(report.skew.max);
  }
}

void MoveTally::add_busy(const MigrationReport& report) {
  count(report);
  ++busy_;
}

void MoveTally::count(const MigrationReport& report) {
  bytes_twice_ += report.bytes_copied_twice;
  chunks_moved_ += report.chunks_moved;
  chunks_live_ += report.chunks_live;
  retries_ += report.retries;
  for (const auto& [reason, times] : report.reasons) {
    reasons_[is_refusal(reason) ? reason : "other_way"] += times;
  }
  phases_.copy += report.phases.copy;
  phases_.settle += report.phases.settle;
  phases_.unmap += report.phases.unmap;
  phases_.map += report.phases.map;
  phases_.grant += report.phases.grant;
}

double MoveTally::rate_gb_s() const {
  return to_gb_s(bytes_moved_, wall_sum_);
}

void MoveTally::add_to(Sample& sample, const std::string& prefix) const {
  const auto set = [&](const std::string& name, double value) {
    sample.counters[prefix + name] = value;
  };
  if (wall_.empty() && busy_ == 0) throw std::runtime_error("no move was tried");
  set("moves", moves());
  set("busy", busy_);
  set("retries", retries_);
  set("chunks_moved", chunks_moved_);
  set("chunks_live", chunks_live_);
  set("bytes_twice", static_cast<double>(bytes_twice_));
  for (const auto& [reason, times] : reasons_) set("reason_" + reason, times);
  if (wall_.empty()) return;
  sample.wall = median_of(wall_);
  set("rate_gb_s", rate_gb_s());
  const double chunks = std::max(1, chunks_moved_);
  set("settle_us", to_us(phases_.settle) / chunks);
  set("unmap_us", to_us(phases_.unmap) / chunks);
  set("map_us", to_us(phases_.map) / chunks);
  set("grant_us", to_us(phases_.grant) / chunks);
  set("switch_us", to_us(phases_.unmap + phases_.map + phases_.grant) / chunks);
  add_percentiles(sample, prefix + "wall", wall_);
  if (stall_.empty()) return;
  add_percentiles(sample, prefix + "stall", stall_);
  add_percentiles(sample, prefix + "skew", skew_);
  sample.series[prefix + "stall_us"] = to_series(stall_);
  sample.series[prefix + "skew_us"] = to_series(skew_);
}

}  // namespace vma
