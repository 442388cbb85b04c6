#include "support/reaction/gate_mover.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace vma {

GateMover::GateMover(const MachineCosts& costs, const GateModel& model, Time stall_budget)
    : costs_(costs), model_(model), budget_(stall_budget, 0) {}

void GateMover::submit(PlannedMigration group, Time now) {
  std::deque<PlannedMigration>& queue = group.moves.front().goes_last ? victims_ : wanted_;
  queue.push_back(std::move(group));
  begin_next(now);
}

void GateMover::begin_next(Time now) {
  if (running_) return;
  std::deque<PlannedMigration>& queue = wanted_.empty() ? victims_ : wanted_;
  if (queue.empty()) return;
  running_ = Running{};
  running_->group = std::move(queue.front());
  queue.pop_front();
  Time copied = now;
  for (const AcceptedMove& move : running_->group.moves) {
    const Time whole = costs_.move_time(move.from, move.to, move.bytes);
    const Time stall = costs_.stall_time(move.from, move.to, move.bytes);
    copied += std::max(whole - stall, Time(1));
    running_->copied.push_back(copied);
  }
}

/// The stall of a gate for that many chunks of the migration.
Time GateMover::stall_of(std::size_t chunks) const {
  const AcceptedMove& move = running_->group.moves.front();
  const Time one = costs_.stall_time(move.from, move.to, move.bytes);
  const Time more = model_.unmap + model_.grant * static_cast<int>(costs_.gpus());
  return one + more * static_cast<int>(chunks - 1);
}

/// How many chunks the next gate is for. Requires: a migration runs.
std::size_t GateMover::batch() const {
  const std::size_t left = running_->group.moves.size() - running_->switched;
  std::size_t chunks = 1;
  while (chunks < std::min(left, model_.chunks_max) && stall_of(chunks + 1) <= model_.max_stall)
    ++chunks;
  return chunks;
}

Time GateMover::next_stop() const {
  const Time copied = running_->copied[running_->switched + batch() - 1];
  return std::max(copied, budget_.next_stop(copied));
}

Time GateMover::next() const {
  if (open_at_ < Time::max()) return open_at_;
  return running_ ? next_stop() : Time::max();
}

bool GateMover::wants_gate(Time now) const {
  return running_ && open_at_ == Time::max() && next_stop() <= now && budget_.next_stop(now) <= now;
}

void GateMover::close(Time first, Time last) {
  VMART_CHECK(running_ && open_at_ == Time::max(), "one gate at a time");
  at_gate_ = batch();
  first_stood_ = first;
  open_at_ = last + stall_of(at_gate_);
  ++gates_;
}

bool GateMover::open(Time now) {
  if (open_at_ > now) return false;
  budget_.spent_stall(first_stood_, open_at_ - first_stood_);
  stopped_ += open_at_ - first_stood_;
  open_at_ = Time::max();
  running_->switched += at_gate_;
  if (running_->switched == running_->group.moves.size()) {
    ended_.push_back(std::move(running_->group));
    running_.reset();
    begin_next(now);
  }
  return true;
}

std::vector<PlannedMigration> GateMover::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace vma
