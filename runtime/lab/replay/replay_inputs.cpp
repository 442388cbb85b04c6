#include "lab/replay/replay_inputs.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vma {

std::string_view to_string(Pacing pacing) noexcept {
  switch (pacing) {
    case Pacing::timed: return "timed";
    case Pacing::at_once: return "at_once";
  }
  return "unknown";
}

Pacing parse_pacing(const std::string& name) {
  for (const Pacing pacing : {Pacing::timed, Pacing::at_once}) {
    if (name == to_string(pacing)) return pacing;
  }
  throw Error(ErrorKind::invalid_argument, "replay",
              fmt::format("'{}' is not a pacing; known are timed, at_once", name));
}

std::string_view to_string(ToldUses uses) noexcept {
  switch (uses) {
    case ToldUses::exact: return "exact";
    case ToldUses::launches: return "launches";
    case ToldUses::base_pointers: return "base_pointers";
  }
  return "unknown";
}

ToldUses parse_told_uses(const std::string& name) {
  for (const ToldUses one : {ToldUses::exact, ToldUses::launches, ToldUses::base_pointers}) {
    if (name == to_string(one)) return one;
  }
  throw Error(ErrorKind::invalid_argument, "replay",
              fmt::format("'{}' is not how uses are told; known are exact, launches, "
                          "base_pointers",
                          name));
}

StopKind parse_stop(const std::string& name) {
  for (const StopKind one : {StopKind::gate, StopKind::suspension}) {
    if (name == to_string(one)) return one;
  }
  throw Error(ErrorKind::invalid_argument, "replay",
              fmt::format("'{}' is not a kind of stop; known are gate, suspension", name));
}

void stop_by(StopKind stop, ReplayMachine& machine, ReplayOptions& options) {
  options.stop = stop;
  if (stop == StopKind::gate) return machine.suspension.reset();
  options.max_stall = std::chrono::microseconds(5'500);
  if (machine.suspension) return;
  throw Error(ErrorKind::invalid_argument, "replay",
              fmt::format("machine {} has no costs.suspend_us, so its work cannot be suspended",
                          machine.name));
}

std::string_view to_string(Admission admission) noexcept {
  switch (admission) {
    case Admission::none: return "none";
    case Admission::queue: return "queue";
    case Admission::preempt: return "preempt";
  }
  return "unknown";
}

std::string_view to_string(AdmissionMemory memory) noexcept {
  switch (memory) {
    case AdmissionMemory::all: return "all";
    case AdmissionMemory::hbm: return "hbm";
  }
  return "unknown";
}

Admission parse_admission(const std::string& name) {
  for (const Admission one : {Admission::none, Admission::queue, Admission::preempt}) {
    if (name == to_string(one)) return one;
  }
  throw Error(ErrorKind::invalid_argument, "replay",
              fmt::format("'{}' is not an admission; known are none, queue, preempt", name));
}

AdmissionMemory parse_admission_memory(const std::string& name) {
  for (const AdmissionMemory one : {AdmissionMemory::all, AdmissionMemory::hbm}) {
    if (name == to_string(one)) return one;
  }
  throw Error(ErrorKind::invalid_argument, "replay",
              fmt::format("'{}' is not memory for admission; known are all, hbm", name));
}

RequestLimits request_limits(std::optional<double> first_ms, std::optional<double> step_ms,
                             std::string_view call) {
  constexpr double day_ms = 86'400'000;
  RequestLimits limits;
  if (first_ms) limits.first = milliseconds_of(*first_ms, 0, day_ms, "--slo-first", call);
  if (step_ms) limits.step = milliseconds_of(*step_ms, 0, day_ms, "--slo-step", call);
  return limits;
}

std::uint64_t bytes_of(double amount, double unit, std::string_view what) {
  // Written this way to reject NaN as well.
  if (!(amount * unit >= 1 && amount * unit < 1e18)) {
    throw Error(ErrorKind::invalid_argument, "replay",
                fmt::format("{} {} is out of range", what, amount));
  }
  return static_cast<std::uint64_t>(amount * unit);
}

Time milliseconds_of(double amount, double least, double most, std::string_view option,
                     std::string_view call) {
  // Written this way to reject NaN as well.
  if (!(amount >= least && amount <= most)) {
    throw Error(ErrorKind::invalid_argument, std::string(call),
                fmt::format("{} {} is out of range: {} to {} ms", option, amount, least, most));
  }
  return std::chrono::duration_cast<Time>(std::chrono::duration<double, std::milli>(amount));
}

void cap_places(ReplayMachine& machine, const PlaceCaps& caps) {
  for (PlaceState& place : machine.places) {
    const bool on_gpu = place.place.kind == Place::Kind::gpu;
    const std::optional<double>& chosen = on_gpu ? caps.hbm_gib : caps.host_gib;
    if (chosen)
      place.capacity_bytes =
          bytes_of(*chosen, static_cast<double>(GiB), on_gpu ? "--hbm" : "--host");
  }
}

std::uint64_t hbm_of_share(double share, const TraceRoom& room, std::uint64_t chunk_bytes,
                           std::size_t gpus) {
  VMART_CHECK(share >= hbm_share_min && share <= hbm_share_max, "a share is within its bounds");
  VMART_CHECK(gpus > 0 && chunk_bytes > 0, "there are GPUs, and chunks have bytes");
  const std::uint64_t chunk = std::max<std::uint64_t>(room.chunk_max(chunk_bytes), 1);
  const double bytes = share * static_cast<double>(room.peak_bytes) / static_cast<double>(gpus);
  const double chunks = std::ceil(bytes / static_cast<double>(chunk));
  // No machine has this much; the limit avoids an overflow below.
  constexpr double bytes_max = 1e18;
  if (chunks * static_cast<double>(chunk) > bytes_max) return static_cast<std::uint64_t>(bytes_max);
  return std::max(static_cast<std::uint64_t>(chunks), hbm_chunks_min) * chunk;
}

std::uint64_t share_hbm(ReplayMachine& machine, double share, const TraceRoom& room,
                        std::uint64_t chunk_bytes) {
  const std::uint64_t bytes = hbm_of_share(share, room, chunk_bytes, machine.costs.gpus());
  std::uint64_t most = 0;
  for (PlaceState& place : machine.places) {
    if (place.place.kind != Place::Kind::gpu) continue;
    place.capacity_bytes = std::min(place.capacity_bytes, bytes);
    most = std::max(most, place.capacity_bytes);
  }
  return most;
}

}  // namespace vma
