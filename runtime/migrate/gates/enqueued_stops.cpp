#include "migrate/gates/enqueued_stops.hpp"

#include "driver/native_codes.hpp"
#include "memory/contexts_in_use.hpp"
#include "migrate/stops/capture_starts.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <shared_mutex>

namespace vma {
namespace {

/// As the program knows it, with its GPU.
std::string name_of(const GateStop& stop, const GatePost::Stand& stand) {
  const auto handle = static_cast<std::uint64_t>(stop.stream.handle);
  const std::string where = stand.gpu ? fmt::format(" of gpu({})", *stand.gpu) : "";
  return handle == 0 ? fmt::format("the legacy stream{}", where)
                     : fmt::format("stream {:#x}{}", handle, where);
}

}  // namespace

bool breaks_context(const Error& error) {
  return context_is_broken(error.native()) && !means_lost_stream(error.native());
}

EnqueuedStops::EnqueuedStops(Driver& driver, GatePost& post, const GatePlan& plan,
                             const StopWord* open)
    : driver_(driver),
      clock_(driver.clock()),
      post_(post),
      plan_(plan),
      open_(open),
      arrivals_(clock_, next_epoch(), plan.stops.size()) {}

std::optional<GateRefusal> EnqueuedStops::enqueue() {
  const auto no_capture_begins = let_no_capture_begin();
  if (!no_capture_begins.owns_lock()) {
    return GateRefusal{
        StopRefusal::capture,
        "a thread of the program begins a capture, or lets a stream wait for an event"};
  }
  if (auto refusal = find_capture()) return refusal;
  // Each call in between would add to the time between the arrivals.
  for (std::size_t i = 0; i < plan_.stops.size(); ++i) enqueue_one(i);
  enqueued_at_ = clock_.now();
  // A capture that began in between may have taken what was enqueued. One that begins from here on
  // finds it in the stream.
  auto refusal = find_capture();
  captured_ = refusal.has_value();
  if (!refusal) unseen_.clear();
  return refusal;
}

void EnqueuedStops::enqueue_one(std::size_t index) {
  const GateStop& stop = plan_.stops[index];
  GatePost::Stand& stand = post_.stand(stop);
  unseen_.push_back(index);
  arrivals_.expect(index, stand.arrived);
  try {
    if (open_ == nullptr) {
      const WordOperation write = post_.arrival(stand, epoch());
      driver_.batch(stop.stream, {&write, 1});
    } else {
      const auto words = post_.words_of_stop(stand, *open_, epoch());
      if (!stop.graphs) {
        driver_.batch(stop.stream, words);
      } else {
        // Without a chain the context is broken and runs no more work.
        if (is_none(stand.chain)) return arrivals_.excuse(index);
        driver_.stop(stop.stream, stand.chain, words);
      }
    }
    stand.asked = epoch();  // A refused call has enqueued nothing.
  } catch (const Error& error) {
    if (!breaks_context(error)) throw;
    arrivals_.excuse(index);  // A broken context runs no more work.
  }
}

bool EnqueuedStops::captures(const GateStop& stop) {
  return std::ranges::any_of(stop.capture_watched, [&](BoundStream watched) {
    try {
      return driver_.is_capturing(watched);
    } catch (const Error& error) {
      if (!breaks_context(error)) throw;
      return false;
    }
  });
}

/// Polls for arrivals in between, since each query takes a while.
std::optional<GateRefusal> EnqueuedStops::find_capture() {
  for (const GateStop& stop : plan_.stops) {
    arrivals_.look();
    if (!captures(stop)) continue;
    return GateRefusal{StopRefusal::capture,
                       fmt::format("{}, or a stream that waits for it, captures a graph",
                                   name_of(stop, post_.stand(stop)))};
  }
  return std::nullopt;
}

/// A query would end a capture that begins meanwhile; a write that is captured is harmless. It may
/// execute long after the stop, so it has its own epoch: the word is in use until then.
void EnqueuedStops::excuse_broken() {
  for (std::size_t i = 0; i < plan_.stops.size(); ++i) {
    const GateStop& stop = plan_.stops[i];
    if (arrivals_.has(i)) continue;
    const auto no_capture_begins = let_no_capture_begin();
    if (!no_capture_begins.owns_lock() || captures(stop)) continue;
    GatePost::Stand& stand = post_.stand(stop);
    const WordOperation again = post_.arrival(stand, next_epoch());
    unseen_.push_back(i);
    try {
      driver_.batch(stop.stream, {&again, 1});
      stand.asked = again.value;
    } catch (const Error& error) {
      if (!breaks_context(error)) throw;
      arrivals_.excuse(i);
    }
  }
}

bool EnqueuedStops::may_be_captured() noexcept {
  const auto captured = [&](std::size_t index) {
    try {
      return captures(plan_.stops[index]);
    } catch (const Error& error) {
      return !means_lost_stream(error.native());
    } catch (const std::exception&) {
      return true;
    }
  };
  return captured_ || std::ranges::any_of(unseen_, captured);
}

GateRefusal EnqueuedStops::not_arrived(std::string_view how) {
  constexpr std::size_t names_max = 4;
  const std::vector<GateStop>& stops = plan_.stops;
  std::size_t missing = 0;
  std::string names;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (arrivals_.has(i)) continue;
    if (++missing > names_max) continue;
    names += fmt::format("{} {}", missing > 1 ? "," : "", name_of(stops[i], post_.stand(stops[i])));
  }
  if (missing > names_max) names += fmt::format(" and {} more", missing - names_max);
  return {StopRefusal::not_arrived,
          fmt::format("{} of {} streams {}:{}", missing, stops.size(), how, names)};
}

}  // namespace vma
