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
/// After a pause of the program's launches in which nothing could be staged.
constexpr std::chrono::milliseconds pause_again(1);
/// Frees and detaches of the program wait for what is staged in one go.
constexpr std::chrono::milliseconds stage_limit(20);

}  // namespace

GateLine::GateLine(const MoveParts& parts, LiveRanges& ranges, LiveStaging& staging,
                   StopTries& tries)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      ranges_(ranges),
      staging_(staging),
      tries_(tries) {}

void GateLine::begin(LiveBatch batch) {
  staging_.launch_waits().fade();
  entries_.emplace_back(std::move(batch));
}

std::optional<GateRefusal> GateLine::look() {
  if (batch().suspends()) return std::nullopt;  // It waits for no backlog.
  const Stops::Turn turn(parts_.stops);
  return BatchStop(parts_, ranges_, batch(), staging_.max_stall(), turn.gate_post()).look();
}

std::optional<GateRefusal> GateLine::send() {
  if (!turn_) turn_.emplace(parts_.stops);
  Entry& first = entries_.front();
  first.stop.emplace(parts_, ranges_, first.batch, staging_.max_stall(), turn_->gate_post());
  first.stall = staging_.predicted_stall(first.batch);
  const LaunchWaits::Pause pause(staging_.launch_waits());
  const TimePoint begun = clock_.now();
  auto refusal = first.stop->send(false);
  const TimePoint sent = clock_.now();
  drained_ = pause.holds() ? sent - begun : std::chrono::nanoseconds(0);
  next_send_ = sent + run_per_stall * first.stall;
  return refusal;
}

bool GateLine::await_first(TimePoint until) {
  return entries_.front().stop->await_first(until, [this] {
    const TimePoint begun = clock_.now();
    keep_others_up();
    const TimePoint now = clock_.now();
    if (now - begun > LaunchWaits::usual) staging_.launch_waits().note(now - begun);
    if (has_time(now)) do_more();
  });
}

/// While a stream stands, a launch for which there is no room does not return, and a call of ours
/// would wait behind it until the watchdog opens the gate.
bool GateLine::has_time(TimePoint now) const noexcept {
  const LaunchWaits& waits = staging_.launch_waits();
  return !waits.any() || now + 2 * waits.longest() + drained_ < entries_.front().stop->may_arrive();
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
void GateLine::do_more() noexcept {
  try {
    const LiveChunk& last = *entries_.back().batch.chunks.back();
    if (stage_more(last) || !may_send_more()) return;
    LiveBatch next = staging_.next_batch(batch(), last);
    if (next.chunks.empty()) return;
    const std::chrono::nanoseconds stall = staging_.predicted_stall(next);
    const TimePoint begun = clock_.now();
    if (parts_.pace.stall_left(begun) < pending_stall() + stall) return;
    const LaunchWaits::Pause pause(staging_.launch_waits());
    send_behind(std::move(next), stall);
    const TimePoint sent = clock_.now();
    staging_.launch_waits().note(sent - begun);
    next_send_ = sent + run_per_stall * stall;
  } catch (const std::exception& error) {
    log(LogLevel::debug, "no gate is sent ahead: {}", error.what());
    refused_ = true;
  }
}

/// One chunk, or as many as there is time for while the program launches nothing. Only one gate is
/// sent then, because gates with no launch in between would be one long stop. Returns whether any.
bool GateLine::stage_more(const LiveChunk& last) {
  if (clock_.now() < next_pause_) return false;
  LiveChunk* next = staging_.one_ahead(batch(), last);
  if (next == nullptr) return false;
  const LaunchWaits::Pause pause(staging_.launch_waits());
  const TimePoint begun = clock_.now();
  if (!staging_.stage_one_ahead(batch(), *next)) {
    if (staging_.launch_waits().any()) next_pause_ = clock_.now() + pause_again;
    return false;
  }
  const TimePoint end = clock_.now() + stage_limit;  // The first one may have waited.
  while (pause.holds() && clock_.now() < end && has_time(clock_.now())) {
    next = staging_.one_ahead(batch(), last);
    if (next == nullptr || !staging_.stage_one_ahead(batch(), *next)) break;
  }
  if (pause.holds()) next_send_ += clock_.now() - begun;  // The program did not run meanwhile.
  return true;
}

bool GateLine::may_send_more() const {
  return !refused_ && entries_.size() < gates_max && clock_.now() >= next_send_ &&
         !parts_.stops.waiting().any();
}

/// Its settling may have been enqueued even if it is refused: the batch stays in the line, and is
/// called off with the others.
void GateLine::send_behind(LiveBatch batch, std::chrono::nanoseconds stall) {
  tries_.begin(batch);
  tries_.set_limit(batch);
  Entry& entry = entries_.emplace_back(std::move(batch));
  entry.stall = stall;
  // Whether it need not settle is not known before its gate is closed.
  for (LiveChunk* const chunk : entry.batch.chunks) chunk->settles = chunk->copier != nullptr;
  entry.stop.emplace(parts_, ranges_, entry.batch, staging_.max_stall(), turn_->gate_post());
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
