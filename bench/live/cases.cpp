#include "bench/live/cases.hpp"

#include <algorithm>

namespace vma {
namespace {

void add_summary(Sample& sample, const std::string& name, const DurationSummary& summary) {
  sample.counters[name + "_count"] = static_cast<double>(summary.count);
  sample.counters[name + "_median_us"] = to_us(summary.median);
  sample.counters[name + "_p99_us"] = to_us(summary.p99);
  sample.counters[name + "_max_us"] = to_us(summary.max);
}

}  // namespace

std::string mode_label(MoveMode mode) {
  switch (mode) {
    case MoveMode::live: return "live";
    case MoveMode::stopped: return "stopped";
    case MoveMode::held: return "held";
  }
  return "";
}

MigrateOptions options_of(MoveMode mode) {
  MigrateOptions options;
  options.mode = mode == MoveMode::live ? Mode::live : Mode::stopped;
  if (mode == MoveMode::held) options.scope = StopScope::hold;
  return options;
}

WriterSpec few_writes(const MovedRange& range, int streams, std::chrono::nanoseconds kernel) {
  WriterSpec spec;
  spec.gpus = live_gpus(1);
  if (spec.gpus.size() > 2) spec.gpus.resize(2);
  spec.streams = streams;
  spec.kernel = kernel;
  spec.places = range.places(DirtyTiles{});
  spec.submissions = live_submissions();
  return spec;
}

WriterSpec sweeps(Place at, std::uint64_t bytes) {
  WriterSpec spec;
  spec.gpus = {at};
  spec.attached = false;
  spec.backlog = 4;
  spec.kernel = std::chrono::nanoseconds(0);
  spec.sweep_words = std::min(bytes, 256 * mebibyte) / sizeof(std::uint64_t);
  return spec;
}

void add_stops(Sample& sample, const RuntimeStats& stats) {
  add_summary(sample, "stall", stats.stall);
  add_summary(sample, "skew", stats.skew);
}

double share_lost(double before, double during, double after) {
  const double undisturbed = (before + after) / 2;
  return undisturbed > 0 ? 1 - during / undisturbed : 0;
}

}  // namespace vma
