#include "measuring/live_stops.hpp"

#include "base/log.hpp"
#include "base/vectors.hpp"
#include "calibration/attempt.hpp"
#include "costs/move_costs.hpp"
#include "measuring/busy_gpu.hpp"
#include "placement/books/place_number.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

namespace vma {
namespace {

constexpr int move_tries = 12;  // The first one is a warm-up.
/// Length of the rounds that a program launches before it waits; streams arrive at a gate at the
/// end of a round. If rounds on several GPUs were longer, their ends would lie further apart than a
/// gate waits on its first attempt. `late_round` represents a program that reads much host memory,
/// so that its stream arrives late.
constexpr std::chrono::milliseconds usual_round(1), late_round(60);

void require_stops(const auto& times) {
  if (!times.stalls.empty()) return;
  throw Error(ErrorKind::busy, "vma::calibrate", "no move reached a gate");
}

}  // namespace

Time usual_mean(std::vector<Time> times) {
  constexpr int medians_max = 3;
  const Time most = median(times) * medians_max;
  std::erase_if(times, [&](Time time) { return time > most; });
  const Time sum = std::accumulate(times.begin(), times.end(), Time(0));
  return sum / static_cast<Time::rep>(times.size());
}

LiveStops::LiveStops(Runtime& runtime, const Sizes& sizes) : runtime_(runtime), sizes_(sizes) {}

LiveStops::~LiveStops() = default;

void LiveStops::free(std::byte* pointer) noexcept {
  if (pointer == nullptr) return;
  try {
    runtime_.free(pointer);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "calibration could not release memory: {}", error.what());
  }
}

void LiveStops::open_gpus() {
  const BusyGpu::Work work{sizes_.read_bytes, usual_round};
  for (const Place at : runtime_.places()) {
    if (at.kind != Place::Kind::gpu) continue;
    gpus_.push_back(std::make_unique<BusyGpu>(runtime_, at, work, executor_));
  }
}

/// Moves two chunks at once, so that one is copied while the other is stopped at its gate, as in a
/// program that keeps moving memory.
void LiveStops::swap(const std::array<std::byte*, 2>& chunks, Place near, Place far, Route* route) {
  const Migration there = runtime_.migrate_async(chunks[0], far);
  const Migration back = runtime_.migrate_async(chunks[1], near);
  const auto note = [](const MigrationReport& report, Times& times) {
    if (report.stall.count == 0) return;
    times.moves.push_back(move_time(report));
    times.stalls.push_back(report.stall.median);  // Of one chunk.
    times.waits.push_back(report.phases.wait);
  };
  const MigrationReport gone = there.wait(), come = back.wait();
  for (const auto& gpu : gpus_) gpu->require_works();
  if (route == nullptr) return;
  note(gone, route->there);
  note(come, route->back);
}

LiveStops::Route LiveStops::measure(Place near, Place far, std::size_t bytes) {
  AllocOptions options;
  options.tag = "calibration";
  options.chunk_bytes = bytes;
  std::array<std::byte*, 2> chunks{};
  Route route;
  try {
    chunks[0] = static_cast<std::byte*>(runtime_.alloc(bytes, near, options));
    chunks[1] = static_cast<std::byte*>(runtime_.alloc(bytes, far, options));
    for (int attempt = 0; attempt < move_tries; ++attempt) {
      swap(chunks, near, far, attempt > 0 ? &route : nullptr);
      std::swap(chunks[0], chunks[1]);
    }
  } catch (...) {
    for (std::byte* chunk : chunks) free(chunk);
    throw;
  }
  for (std::byte* chunk : chunks) free(chunk);
  return route;
}

void LiveStops::take(Calibration& calibration, PlaceId from, PlaceId to, const Times& small,
                     const Times& large) const {
  require_stops(small);
  require_stops(large);
  const auto measured = [](std::size_t bytes, const Times& times) {
    return MeasuredMove{bytes, median(times.moves), usual_mean(times.stalls)};
  };
  set_move_costs(calibration.costs, from, to, measured(sizes_.small_bytes, small),
                 measured(sizes_.large_bytes, large));
}

void LiveStops::measure_routes(Calibration& calibration) {
  const std::vector<Place>& places = calibration.places;
  for (std::size_t near = 0; near < places.size(); ++near) {
    for (std::size_t far = near + 1; far < places.size(); ++far) {
      if (places[near].kind == Place::Kind::host) continue;
      const std::string route =
          fmt::format("{}->{} and back", to_string(places[near]), to_string(places[far]));
      attempt(calibration.estimates, "live moves " + route, [&] {
        const Route small = measure(places[near], places[far], sizes_.small_bytes);
        const Route large = measure(places[near], places[far], sizes_.large_bytes);
        take(calibration, place_numbered(near), place_numbered(far), small.there, large.there);
        take(calibration, place_numbered(far), place_numbered(near), small.back, large.back);
        // The calibrator could not measure stopped moves on this route; it is measured now.
        const std::string estimate = "moves " + route;
        std::erase_if(calibration.estimates,
                      [&](const std::string& it) { return it.starts_with(estimate); });
      });
    }
  }
}

/// Only one GPU reads. With several, a gate would first align the ends of their long rounds.
LiveStops::Route LiveStops::measure_rounds(Place near, Place far, Time round) {
  const BusyGpu::Work work{sizes_.read_bytes, round};
  gpus_.push_back(std::make_unique<BusyGpu>(runtime_, near, work, executor_));
  Route route = measure(near, far, sizes_.late_bytes);
  gpus_.clear();
  require_stops(route.there);
  require_stops(route.back);
  return route;
}

LateStops LiveStops::measure_late(Place near, Place far) {
  const Route soon = measure_rounds(near, far, usual_round);
  const Route late = measure_rounds(near, far, late_round);
  const auto more = [&](auto&& of) {
    return (of(late.there) - of(soon.there) + of(late.back) - of(soon.back)) / 2;
  };
  const Time wait = more([](const Times& times) { return usual_mean(times.waits); });
  const Time longer = more([](const Times& times) { return usual_mean(times.stalls); });
  if (wait <= Time::zero())
    throw Error(ErrorKind::busy, "vma::calibrate", "no stream arrived late at a gate");
  return {wait, std::max(longer, Time::zero())};
}

void LiveStops::measure(Calibration& calibration) {
  const std::vector<Place>& places = calibration.places;
  const bool open = attempt(calibration.estimates, "live moves", [&] { open_gpus(); });
  if (open) measure_routes(calibration);
  gpus_.clear();
  const auto host = std::ranges::find(places, Place::Kind::host, &Place::kind);
  if (!open || host == places.end()) return;
  attempt(calibration.estimates, "late stops",
          [&] { calibration.late = measure_late(places.front(), *host); });
}

}  // namespace vma
