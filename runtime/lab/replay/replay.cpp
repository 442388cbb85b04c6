#include "lab/replay/replay.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace vma {
namespace {

/// Skips ticks while nothing happens: at once when idle, otherwise after half of `quiet_max`. Ticks
/// resume half of `quiet_max` before the next event. So an access of half a year costs no more to
/// replay than one of a minute.
constexpr std::chrono::seconds quiet_max(60);
constexpr double access_bytes_max = 1e18;
constexpr std::chrono::hours span_max(366 * 24);  // Limit for the length of a trace.

}  // namespace

Replay::Replay(const ReplayMachine& machine, const ReplayOptions& options,
               std::unique_ptr<Policy> policy, std::unique_ptr<Router> router)
    : options_(options),
      account_(machine, options_),
      scheduler_(machine.places, machine.costs, options_.scheduler, std::move(policy)),
      traffic_(machine.links),
      moves_(machine, traffic_, options_.stall_budget),
      memory_(machine, options_, scheduler_, moves_, account_, now_),
      devices_(machine, options_, scheduler_, traffic_, moves_, memory_, account_, now_),
      router_(std::move(router)) {}

/// Order of what happens at the same time: flows end; gates open and copies begin; the scheduler
/// collects uses; the scheduler ticks; the trace continues.
ReplayReport Replay::run(TraceSource& source) {
  source_ = &source;
  if (!read_head())
    throw Error(ErrorKind::invalid_argument, "Replay::run", "the trace has no events");
  now_ = batch_[head_].time;
  account_.begin(source.tags(), now_);
  memory_.begin(source.tags());
  scheduler_.set_now(now_);
  Time drain = Time::max(), tick = now_ + options_.tick, happened = now_;
  admit();
  while (more_ || devices_.busy()) {
    if (scheduler_.has_uses() && drain == Time::max()) drain = now_ + options_.drain;
    const Time soon = std::min(
        {traffic_.next_end(), moves_.next(), drain, next_admission(), devices_.next_begin()});
    if (soon == Time::max() && traffic_.size() > 0)
      throw Error(ErrorKind::invalid_argument, "Replay::run", "an access never ends");
    const bool idle = !devices_.busy() && scheduler_.under_way() == 0;
    const bool quiet = idle || tick - happened > quiet_max / 2;
    if (quiet && soon < Time::max() && soon - tick > quiet_max) tick = soon - quiet_max / 2;
    now_ = std::min(soon, tick);
    if (now_ == soon) happened = now_;
    scheduler_.set_now(now_);
    if (account_.window_over(now_)) account_.pass_window(now_, scheduler_.resident_bytes());
    while (traffic_.next_end() <= now_) end_flow();
    end_moves();
    devices_.begin_due();
    if (drain <= now_) {
      drain = Time::max();
      if (scheduler_.has_uses()) scheduler_.drain();
      memory_.start_moves();
    }
    if (tick <= now_) {
      tick_now(tick);
      // Until something else happens, only ticks change anything.
      while (!idle && tick < soon && tick - happened <= quiet_max / 2 && drain == Time::max() &&
             !scheduler_.has_uses() && scheduler_.under_way() == 0) {
        now_ = tick;
        scheduler_.set_now(now_);
        if (account_.window_over(now_)) account_.pass_window(now_, scheduler_.resident_bytes());
        tick_now(tick);
      }
    }
    admit();
  }
  return account_.finish(scheduler_);
}

void Replay::tick_now(Time& next) {
  next += options_.tick;
  scheduler_.tick();
  memory_.start_moves();
}

/// The next flow, of an access or of a move, has ended.
void Replay::end_flow() {
  const FlowId flow = traffic_.next();
  traffic_.end(flow, now_);
  if (!moves_.take_end(flow, now_)) return devices_.end_flow(flow);
  if (!moves_.gate_shut()) devices_.shut_gate();
}

void Replay::end_moves() {
  const std::vector<ReplayMoves::Ended> ended = moves_.advance(now_);
  for (const ReplayMoves::Ended& move : ended) memory_.end_move(move);
  if (ended.empty()) return devices_.shut_gate();  // The next gate may be due.
  devices_.open();
  memory_.start_moves();  // The moves that ended have freed room.
}

// --- The trace

/// Makes `batch_[head_]` the next event. Returns false after the last one.
bool Replay::read_head() {
  if (head_ < batch_.size()) return true;
  if (!more_) return false;
  batch_ = source_->next();
  head_ = 0;
  more_ = !batch_.empty();
  return more_;
}

void Replay::admit() {
  while (read_head()) {
    const TraceEvent& event = batch_[head_];
    if (event.time - account_.begun() > span_max)
      account_.refuse(event, "more than a year after the first event");
    if (options_.pacing == Pacing::timed && event.time > now_) return;
    if (!take(event)) return;
    account_.event_taken();
    ++head_;
  }
}

/// The next time at which the trace can continue without other events.
Time Replay::next_admission() const {
  if (!more_ || head_ >= batch_.size()) return Time::max();
  if (memory_.waits_for_room()) return memory_.room_until();
  const Time time = batch_[head_].time;
  return options_.pacing == Pacing::timed && time > now_ ? time : Time::max();
}

bool Replay::take(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEventKind::access: return take_access(event);
    case TraceEventKind::allocation: return memory_.allocate(event);
    case TraceEventKind::free:
      memory_.free(event);
      router_.forget(event.object);
      return true;
    case TraceEventKind::place: return memory_.place(event);
    case TraceEventKind::tag: memory_.set_tag(event); return true;
    case TraceEventKind::mark: account_.mark(event.tag, now_); return true;
  }
  return true;
}

bool Replay::take_access(const TraceEvent& event) {
  ReplayDevices::Access access;
  access.object = memory_.require(event);
  const ReplayObjects::Object& object = memory_.object(access.object);
  if (event.offset + event.bytes > object.bytes) account_.refuse(event, "past its end");
  access.offset = event.offset;
  access.bytes = event.bytes;
  access.passes = event.use == UseKind::read_write ? 2.0 * event.passes : event.passes;
  access.duration = event.duration;
  access.came = now_;
  access.use = event.use;
  const double bytes = access.all_bytes();
  if (bytes > access_bytes_max) account_.refuse(event, "of more than 10^18 bytes");
  if (event.duration > span_max) account_.refuse(event, "which takes more than a year");
  if (!head_device_) head_device_ = router_.choose(event, devices_.loads());
  const std::size_t device = *head_device_;
  if (!devices_.has_room(device)) return false;
  const PlaceId self{static_cast<std::uint8_t>(device)};
  if (!object.placed && !memory_.place_at_first_touch(access.object, self)) return false;
  head_device_.reset();
  access.first_of_round = devices_.begins_round(event, device, bytes);
  if (object.chunks == 0) {
    account_.access_lost();
  } else {
    devices_.take(device, access);
  }
  return true;
}

}  // namespace vma
