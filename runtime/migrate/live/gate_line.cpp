#include "migrate/live/gate_line.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace vma {
namespace {

/// Between two gates the program runs for at least this many times as long as the first one stops
/// it: otherwise gates that were sent without a launch in between would be one long stop.
constexpr int run_per_stall = 3;
/// Gates on their way, at most.
constexpr std::size_t gates_max = 8;
static_assert(gates_max < GatePost::gates_max);
/// Calls of the driver that take longer wait behind a launch for which its context has no room.
constexpr std::chrono::microseconds call_usual(300);

}  // namespace

GateLine::GateLine(const MoveParts& parts, LiveRanges& ranges, LiveStaging& staging,
                   StopTries& tries)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      ranges_(ranges),
      staging_(staging),
      tries_(tries) {}

void GateLine::begin(LiveBatch batch) {
  longest_call_ -= longest_call_ / 32;  // So that it is tried again now and then.
  entries_.emplace_back(std::move(batch));
}

std::optional<GateRefusal> GateLine::look() {
  const Stops::Turn turn(parts_.stops);
  return BatchStop(parts_, ranges_, batch(), staging_.max_stall(), turn.gate_post()).look();
}

std::optional<GateRefusal> GateLine::send() {
  if (!turn_) turn_.emplace(parts_.stops);
  Entry& first = entries_.front();
  first.stop.emplace(parts_, ranges_, first.batch, staging_.max_stall(), turn_->gate_post());
  first.stall = staging_.predicted_stall(first.batch);
  auto refusal = first.stop->send(false);
  next_send_ = clock_.now() + run_per_stall * first.stall;
  return refusal;
}

bool GateLine::await_first(TimePoint until) {
  return entries_.front().stop->await_first(until, [this] {
    const TimePoint begun = clock_.now();
    keep_others_up();
    if (!has_time(clock_.now())) return;
    send_more();
    longest_call_ = std::max(clock_.now() - begun, longest_call_ * 7 / 8);
  });
}

/// While a stream stands, a launch for which there is no room does not return, and a call of ours
/// would wait behind it until the watchdog opens the gate.
bool GateLine::has_time(TimePoint now) const noexcept {
  return longest_call_ < call_usual ||
         now + 2 * longest_call_ < entries_.front().stop->may_arrive();
}

std::optional<GateRefusal> GateLine::switch_chunks() {
  const auto tell_next = [this] {
    // Hooks are called next, which may wait for a thread that waits for the turn.
    if (entries_.size() == 1) return turn_.reset();
    std::next(entries_.begin())->stop->comes_next();
  };
  try {
    auto refusal = entries_.front().stop->switch_chunks();
    tell_next();
    return refusal;
  } catch (...) {
    tell_next();
    throw;
  }
}

/// Those behind the first one: their streams are told when they are due.
void GateLine::keep_others_up() noexcept {
  for (Entry& entry : entries_) {
    if (&entry != &entries_.front()) entry.stop->keep_up();
  }
}

/// While nothing is stopped, so nothing here may take long.
void GateLine::send_more() noexcept {
  try {
    const LiveChunk& last = *entries_.back().batch.chunks.back();
    if (staging_.stage_one_ahead(batch(), last) || !may_send_more()) return;
    LiveBatch next = staging_.next_batch(batch(), last);
    if (!next.chunks.empty()) send_behind(std::move(next));
  } catch (const std::exception& error) {
    log(LogLevel::debug, "no gate is sent ahead: {}", error.what());
    refused_ = true;
  }
}

bool GateLine::may_send_more() const {
  return !refused_ && entries_.size() < gates_max && clock_.now() >= next_send_ &&
         !parts_.stops.waiting().any();
}

/// Its settling may have been enqueued even if it is refused: the batch stays in the line, and is
/// called off with the others.
void GateLine::send_behind(LiveBatch batch) {
  const std::chrono::nanoseconds stall = staging_.predicted_stall(batch);
  if (parts_.pace.stall_left(clock_.now()) < pending_stall() + stall) return;
  tries_.begin(batch);
  tries_.set_limit(batch);
  Entry& entry = entries_.emplace_back(std::move(batch));
  entry.stall = stall;
  // Whether it need not settle is not known before its gate is closed.
  for (LiveChunk* const chunk : entry.batch.chunks) chunk->settles = chunk->copier != nullptr;
  entry.stop.emplace(parts_, ranges_, entry.batch, staging_.max_stall(), turn_->gate_post());
  next_send_ = clock_.now() + run_per_stall * stall;
  entry.refused = refused_ = true;
  entry.refused = refused_ = entry.stop->send(true).has_value();
}

std::chrono::nanoseconds GateLine::pending_stall() const noexcept {
  std::chrono::nanoseconds stall(0);
  for (const Entry& entry : entries_) stall += entry.stall;
  return stall;
}

void GateLine::finish() noexcept {
  entries_.pop_front();
  if (entries_.empty() || entries_.front().refused) call_off();
}

void GateLine::call_off_others() noexcept {
  // The last first: opening one in advance lets the settlings before it go.
  for (auto entry = entries_.rbegin(); entry != std::prev(entries_.rend()); ++entry) {
    entry->stop->call_off();
  }
  while (entries_.size() > 1) {
    for (LiveChunk* const chunk : entries_.back().batch.chunks) staging_.stand_down(*chunk);
    entries_.pop_back();
  }
}

void GateLine::stand_down() noexcept {
  if (entries_.front().stop) entries_.front().stop->call_off();
  call_off_others();
  entries_.front().stop.reset();
  turn_.reset();
  for (LiveChunk* const chunk : batch().chunks) staging_.stand_down(*chunk);
  refused_ = false;
}

void GateLine::call_off() noexcept {
  if (!entries_.empty()) stand_down();
  entries_.clear();
  turn_.reset();
  refused_ = false;
}

}  // namespace vma
