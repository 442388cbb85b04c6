#include "migrate/gates/enqueued_stops.hpp"

#include "base/units.hpp"
#include "driver/native_codes.hpp"
#include "memory/contexts_in_use.hpp"
#include "migrate/stops/program_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

bool has_written(const std::atomic<std::uint64_t*>& place, std::uint64_t epoch) noexcept {
  std::uint64_t* const word = place.load(std::memory_order_acquire);
  return word != nullptr &&
         std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire) == epoch;
}

/// As the program knows it, with its GPU.
std::string name_of(const GateStop& stop, const GatePost::StreamState& state) {
  const auto handle = static_cast<std::uint64_t>(stop.stream.handle);
  const std::string where = state.gpu ? fmt::format(" of gpu({})", *state.gpu) : "";
  return handle == 0 ? fmt::format("the legacy stream{}", where)
                     : fmt::format("stream {:#x}{}", handle, where);
}

}  // namespace

Arrivals::Arrivals(Clock& clock, std::uint64_t epoch, std::size_t count)
    : clock_(clock), epoch_(epoch), streams_(count), missing_(count) {}

void Arrivals::expect(std::size_t index, std::uint64_t* word) noexcept {
  streams_[index].expected_at = clock_.now();
  streams_[index].word.store(word, std::memory_order_release);
}

void Arrivals::excuse(std::size_t index) noexcept {
  Stream& stream = streams_[index];
  if (stream.arrived) return;
  stream.arrived = stream.excused = true;
  --missing_;
}

void Arrivals::look() noexcept {
  for (Stream& stream : streams_) {
    if (stream.arrived || !has_written(stream.word, epoch_)) continue;
    stream.arrived = true;
    stream.seen_at = last_ = clock_.now();
    if (!first_) first_ = last_;
    --missing_;
  }
}

bool Arrivals::any_now() const noexcept {
  return std::ranges::any_of(
      streams_, [this](const Stream& stream) { return has_written(stream.word, epoch_); });
}

bool Arrivals::all_now() const noexcept {
  return std::ranges::all_of(
      streams_, [this](const Stream& stream) { return has_written(stream.word, epoch_); });
}

void Arrivals::were_seen_by(TimePoint latest) noexcept {
  for (Stream& stream : streams_) {
    if (!stream.arrived || stream.excused) continue;
    stream.seen_at =
        std::clamp(latest, stream.expected_at, std::max(stream.expected_at, stream.seen_at));
  }
}

bool Arrivals::waits() const noexcept {
  return std::ranges::any_of(
      streams_, [](const Stream& stream) { return stream.word != nullptr && !stream.arrived; });
}

std::optional<std::chrono::nanoseconds> Arrivals::depth(std::size_t index) const noexcept {
  const Stream& stream = streams_[index];
  if (!stream.arrived || stream.excused) return std::nullopt;
  return stream.seen_at - stream.expected_at;
}

TimePoint Arrivals::first() const noexcept {
  return first_ ? *first_ : clock_.now();
}

TimePoint Arrivals::last() const noexcept {
  return first_ ? last_ : clock_.now();
}

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

std::optional<StopRefusal> EnqueuedStops::find_capture() {
  return find_capture(schedule_stops(std::vector<Backlog>(plan_.stops.size())));
}

void EnqueuedStops::begin(std::vector<Backlog> backlogs, bool may_follow) {
  backlogs_ = std::move(backlogs);
  starts_ = schedule_stops(backlogs_, may_follow);
  begun_ = clock_.now();
}

std::chrono::nanoseconds EnqueuedStops::deepest() const noexcept {
  std::chrono::nanoseconds deepest(0);
  for (const Backlog& backlog : backlogs_) deepest = std::max(deepest, backlog.depth());
  return deepest;
}

TimePoint EnqueuedStops::next_due() const noexcept {
  if (all_enqueued()) return never;
  if (!starts_[next_].follows) return begun_ + starts_[next_].after;
  return arrivals_.waits() ? never : enqueued_at_;  // In broken contexts none arrives.
}

std::optional<StopRefusal> EnqueuedStops::enqueue_next() {
  const StopStart& first = starts_[next_];
  std::size_t end = next_;
  while (end < starts_.size() && starts_[end].after == first.after &&
         starts_[end].follows == first.follows) {
    ++end;
  }
  const auto group = std::span<const StopStart>(starts_).subspan(next_, end - next_);
  const auto no_capture_begins = CaptureLock::hold_back();
  if (!no_capture_begins.owns_lock()) {
    return StopRefusal{
        StopRefusal::capture,
        "a thread of the program begins a capture, or lets a stream wait for an event"};
  }
  if (auto refusal = find_capture(group)) return refusal;
  // Each call in between would add to the time between the arrivals.
  for (const StopStart& start : group) enqueue_one(start.index);
  next_ = end;
  enqueued_at_ = clock_.now();
  // A capture that began in between may have taken what was enqueued. One that begins from here on
  // finds it in the stream.
  auto refusal = find_capture(unseen_);
  captured_ = refusal.has_value();
  if (!refusal) unseen_.clear();
  return refusal;
}

void EnqueuedStops::enqueue_one(std::size_t index) {
  const GateStop& stop = plan_.stops[index];
  GatePost::StreamState& state = post_.state_of(stop);
  unseen_.push_back({index});
  arrivals_.expect(index, state.arrived);
  try {
    if (open_ == nullptr) {
      const WordOperation write = post_.arrival(state, epoch());
      driver_.batch(stop.stream, {&write, 1});
    } else {
      const auto words = post_.words_of_stop(state, *open_, epoch());
      if (!stop.graphs) {
        driver_.batch(stop.stream, words);
      } else {
        // Without a chain the context is broken and runs no more work.
        if (is_none(state.chain)) return arrivals_.excuse(index);
        driver_.stop(stop.stream, state.chain, words);
      }
    }
    state.asked = epoch();  // A refused call has enqueued nothing.
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
std::optional<StopRefusal> EnqueuedStops::find_capture(std::span<const StopStart> starts) {
  for (const StopStart& start : starts) {
    arrivals_.look();
    const GateStop& stop = plan_.stops[start.index];
    if (!captures(stop)) continue;
    return StopRefusal{StopRefusal::capture,
                       fmt::format("{}, or a stream that waits for it, captures a graph",
                                   name_of(stop, post_.state_of(stop)))};
  }
  return std::nullopt;
}

void EnqueuedStops::learn() {
  const TimePoint now = clock_.now();
  const bool stops = open_ != nullptr;
  for (std::size_t i = 0; i < plan_.stops.size(); ++i) {
    Backlog& backlog = post_.state_of(plan_.stops[i]).backlog;
    if (const auto depth = arrivals_.depth(i)) {
      backlog.saw(now, *depth);
      if (stops) backlog.was_in_time();
    } else if (!arrivals_.has(i) && arrivals_.expects(i)) {
      backlog.forget();
      if (stops && arrivals_.any()) backlog.was_late();
    }
  }
}

void EnqueuedStops::forget_backlogs() {
  for (const GateStop& stop : plan_.stops) post_.state_of(stop).backlog.forget();
}

/// A query would end a capture that begins meanwhile; a write that is captured is harmless. It may
/// execute long after the stop, so it has its own epoch: the word is in use until then.
void EnqueuedStops::excuse_broken() {
  for (std::size_t i = 0; i < plan_.stops.size(); ++i) {
    const GateStop& stop = plan_.stops[i];
    if (arrivals_.has(i) || !arrivals_.expects(i)) continue;
    const auto no_capture_begins = CaptureLock::hold_back();
    if (!no_capture_begins.owns_lock() || captures(stop)) continue;
    GatePost::StreamState& state = post_.state_of(stop);
    const WordOperation again = post_.arrival(state, next_epoch());
    unseen_.push_back({i});
    try {
      driver_.batch(stop.stream, {&again, 1});
      state.asked = again.value;
    } catch (const Error& error) {
      if (!breaks_context(error)) throw;
      arrivals_.excuse(i);
    }
  }
}

bool EnqueuedStops::may_be_captured() noexcept {
  const auto captured = [&](const StopStart& start) {
    try {
      return captures(plan_.stops[start.index]);
    } catch (const Error& error) {
      return !means_lost_stream(error.native());
    } catch (const std::exception&) {
      return true;
    }
  };
  return captured_ || std::ranges::any_of(unseen_, captured);
}

StopRefusal EnqueuedStops::not_arrived(std::string_view how) {
  constexpr std::size_t names_max = 4;
  const std::vector<GateStop>& stops = plan_.stops;
  const bool some_are_awaited = arrivals_.waits();
  std::size_t missing = 0;
  std::string names;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (arrivals_.has(i) || (some_are_awaited && !arrivals_.expects(i))) continue;
    if (++missing > names_max) continue;
    const GatePost::StreamState& state = post_.state_of(stops[i]);
    names += fmt::format("{} {}", missing > 1 ? "," : "", name_of(stops[i], state));
    const std::chrono::nanoseconds depth = state.backlog.depth();
    if (depth > std::chrono::nanoseconds(0)) {
      names += fmt::format(" (its backlog lasted {:.1f} ms when last measured)", in_ms(depth));
    }
  }
  if (missing > names_max) names += fmt::format(" and {} more", missing - names_max);
  return {StopRefusal::not_arrived,
          fmt::format("{} of {} streams {}:{}", missing, stops.size(), how, names)};
}

std::string EnqueuedStops::name(std::size_t index) {
  const GateStop& stop = plan_.stops[index];
  return name_of(stop, post_.state_of(stop));
}

}  // namespace vma
