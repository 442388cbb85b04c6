#include "bench/live/cases.hpp"

namespace vma {

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

WriterSpec few_writes(const LiveRange& range, int streams, std::chrono::nanoseconds kernel) {
  WriterSpec spec;
  spec.gpus = live_gpus(2);
  spec.gpus.resize(2);
  spec.streams = streams;
  spec.kernel = kernel;
  spec.places = range.places(DirtyTiles{});
  return spec;
}

double share_lost(double before, double during, double after) {
  const double undisturbed = (before + after) / 2;
  return undisturbed > 0 ? 1 - during / undisturbed : 0;
}

}  // namespace vma
