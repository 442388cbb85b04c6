#include "control/event_feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace vma {
namespace {

using Kind = ControlEvent::Kind;

/// None for kinds that the steps of moves report in more detail.
std::optional<Kind> kind_of(DecisionKind kind) {
  switch (kind) {
    case DecisionKind::started:
    case DecisionKind::moved: return std::nullopt;
    case DecisionKind::policy_failed: return Kind::policy_failed;
    case DecisionKind::policy_replaced: return Kind::policy_changed;
    case DecisionKind::paused: return Kind::paused;
    case DecisionKind::resumed: return Kind::resumed;
    case DecisionKind::planned:
    case DecisionKind::refused:
    case DecisionKind::not_moved:
    case DecisionKind::drained:
    case DecisionKind::refilled:
    case DecisionKind::parked:
    case DecisionKind::unparked:
    case DecisionKind::ahead:
    case DecisionKind::ahead_judged:
    case DecisionKind::pace_judged: return Kind::decision;
  }
  return Kind::decision;
}

std::string text_of(const Decision& decision) {
  const bool of_policy = decision.kind == DecisionKind::policy_failed ||
                         decision.kind == DecisionKind::policy_replaced;
  const std::string_view who = of_policy ? std::string_view(decision.policy) : "";
  std::string text(of_policy ? who : to_string(decision.kind));
  // The reason first: lines may be cut.
  if (!decision.reason.empty()) text += ": " + decision.reason;
  if (!decision.why.empty()) text += (decision.reason.empty() ? ": " : "; ") + decision.why;
  return text;
}

Kind kind_of(ChunkStep::Kind kind) {
  if (kind == ChunkStep::Kind::begun) return Kind::move_started;
  return kind == ChunkStep::Kind::moved ? Kind::move_done : Kind::move_failed;
}

}  // namespace

std::uint64_t EventRing::add(ControlEvent event) noexcept {
  MutexLock lock(mutex_);
  event.sequence = last_ + 1;
  try {
    events_.push_back(std::move(event));
  } catch (const std::bad_alloc&) {
    ++lost_;
    return 0;
  }
  ++last_;
  if (events_.size() > events_max_) {
    events_.pop_front();
    ++lost_;
  }
  return last_;
}

bool EventRing::repeat(std::uint64_t sequence) noexcept {
  MutexLock lock(mutex_);
  if (events_.empty() || sequence < events_.front().sequence || sequence > last_) return false;
  // Sequence numbers in the ring are consecutive.
  ++events_[static_cast<std::size_t>(sequence - events_.front().sequence)].times;
  return true;
}

ControlEvents EventRing::since(std::uint64_t sequence, std::size_t most) const {
  MutexLock lock(mutex_);
  ControlEvents answer;
  answer.next = last_;
  if (sequence >= last_ || events_.empty()) return answer;
  // Sequence numbers in the ring are consecutive.
  const std::uint64_t first = events_.front().sequence;
  if (sequence + 1 < first) answer.lost = first - sequence - 1;
  const std::uint64_t skipped = sequence + 1 > first ? sequence + 1 - first : 0;
  const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(skipped);
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(events_.end() - begin), most);
  answer.events.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  if (!answer.events.empty()) answer.next = answer.events.back().sequence;
  return answer;
}

std::uint64_t EventRing::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

std::uint64_t EventFeed::next_operation() noexcept {
  const MutexLock lock(mutex_);
  return ++last_operation_;
}

void EventFeed::take_stall(ControlEvent& end) noexcept {
  const MutexLock lock(mutex_);
  const auto found = stalls_.find(end.operation);
  if (found == stalls_.end()) return;
  end.stall = found->second.time;
  end.stop = found->second.stop;
  stalls_.erase(found);
}

// --- Decisions

void EventFeed::decided(const Decision& decision) noexcept try {
  const Address chunk = chunk_of(decision);
  {
    const MutexLock lock(mutex_);
    if (decision.kind == DecisionKind::planned && decision.to && planned_.size() < planned_max) {
      planned_[chunk] = {decision.sequence, *decision.to};
    }
    if (decision.kind == DecisionKind::moved || decision.kind == DecisionKind::not_moved) {
      planned_.erase(chunk);
    }
    if (repeats(decision)) return;
  }
  if (trace_ != nullptr) trace_decision(decision, chunk);
  const std::optional<Kind> kind = kind_of(decision.kind);
  if (!kind) return;
  ControlEvent event;
  event.kind = *kind;
  event.at = decision.time;
  event.address = to_integer(chunk);
  event.bytes = decision.chunk ? decision.chunk->bytes : 0;
  event.from = decision.from;
  event.to = decision.to;
  event.text = text_of(decision);
  const std::uint64_t number = ring_.add(std::move(event));
  if (decision.kind != DecisionKind::refused || number == 0) return;
  const MutexLock lock(mutex_);
  refusals_.begin(decision, number);
} catch (const std::bad_alloc&) {  // Drops the event.
}

bool EventFeed::repeats(const Decision& decision) {
  if (decision.kind != DecisionKind::refused) {
    refusals_.end(decision);
    return false;
  }
  const std::optional<std::uint64_t> number = refusals_.entry_of(decision);
  return number && ring_.repeat(*number);
}

/// Computed from the slot's number, because the decision lacks the sizes of the slots before it.
Address EventFeed::chunk_of(const Decision& decision) const {
  if (!decision.chunk) return Address{};
  const Address begin{decision.chunk->begin};
  const std::optional<Registry::Found> found = registry_.find(begin);
  const auto bounds = found ? registry_.bounds(found->id) : std::nullopt;
  return begin + decision.chunk->slot * (bounds ? bounds->slot_bytes : decision.chunk->bytes);
}

void EventFeed::trace_decision(const Decision& decision, Address chunk) {
  if (decision.kind != DecisionKind::planned && decision.kind != DecisionKind::refused) return;
  if (!decision.to) return;
  const bool planned = decision.kind == DecisionKind::planned;
  TracedDecision entry;
  entry.at = decision.time;
  entry.number = decision.sequence;
  entry.from = decision.from.value_or(*decision.to);
  entry.to = *decision.to;
  entry.address = to_integer(chunk);
  entry.policy = decision.policy;
  entry.reason = decision.why;
  entry.verdict = planned ? to_string(decision.kind) : std::string_view(decision.reason);
  trace_->add(entry);
}

// --- Moves

std::uint64_t EventFeed::decision_behind(const ChunkStep& step) const {
  const MutexLock lock(mutex_);
  const auto found = planned_.find(step.address);
  const bool its = step.operation == 0 && found != planned_.end() && found->second.to == step.to;
  return its ? found->second.number : 0;
}

void EventFeed::moved_on(const ChunkStep& step) noexcept try {
  // Nothing moved, and the caller of resume gets the result.
  if (step.kind == ChunkStep::Kind::restored) return;
  if (step.kind == ChunkStep::Kind::stopped) {
    if (trace_ != nullptr) {
      const bool from_gpu = step.from.kind == Place::Kind::gpu;
      trace_->add(TracedStall{step.begin, step.end, from_gpu ? step.from : step.to,
                              to_integer(step.address), to_string(step.stop)});
    }
    const MutexLock lock(mutex_);
    if (step.operation == 0) return;
    Stall& stall = stalls_[step.operation];
    stall.time += step.end - step.begin;
    stall.stop = step.stop;
    return;
  }
  const bool ended = step.kind != ChunkStep::Kind::begun;
  if (ended && trace_ != nullptr) {
    trace_->add(TracedMove{step.begin, step.end, step.from, step.to, to_integer(step.address),
                           step.bytes, decision_behind(step), step.kind == ChunkStep::Kind::moved});
  }
  ControlEvent event;
  event.kind = kind_of(step.kind);
  event.at = step.end;
  event.operation = step.operation;
  event.address = to_integer(step.address);
  event.bytes = step.bytes;
  event.from = step.from;
  event.to = step.to;
  if (ended) event.took = step.end - step.begin;
  event.stall = step.stall;
  event.stop = step.stop;
  event.text = step.why;
  ring_.add(std::move(event));
} catch (const std::bad_alloc&) {  // Drops the event.
}

}  // namespace vma
