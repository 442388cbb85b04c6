#include "migrate/live/live_ranges.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/migration/migration_error.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <set>
#include <string>
#include <utility>

namespace vma {

LiveRange::LiveRange(MigrationParts& services, std::shared_ptr<MigrationTask> which)
    : parts(services),
      task(std::move(which)),
      allocation(*task->allocation()),
      since(parts.memory.driver().clock().now()),
      report(task->report()),
      notices(allocation, *parts.callbacks),
      want(parts.memory.pressure(), task->terms.asks()) {
  report.failures.reserve(1);  // The first chunk that fails ends it.
}

void LiveRange::plan() {
  if (task->refusal) std::rethrow_exception(task->refusal);
  const SlotRange range = task->range;
  if (task->terms.choice == PlaceChoice::runtime) {
    parts.reach.require(allocation, range, task->to, live_move_call);
  }
  parts.reach.require_atomics(allocation, range, task->to, live_move_call);
  std::set<Place> sources;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    const Place from = allocation.place(slot);
    if (from == task->to) continue;
    chunks.emplace_back(parts.memory, parts.engine, *this, slot, chunks.size());
    task->reserved.hand_over_to(chunks.back().transaction);
    sources.insert(from);
  }
  note_routes(report, sources, task->to);
  // Before the first copy: what the CPU writes from here on waits until the move has ended.
  allocation.revoke_cpu(range.first, range.end, task->to);
}

void LiveRange::require_movable() const {
  require_no_pin(allocation, live_move_call);
  require_no_loss(allocation, live_move_call);
  require_contents(allocation, task->range, live_move_call);
}

LiveChunk* LiveRange::first_left() noexcept {
  while (switched < chunks.size() && chunks[switched].switched()) ++switched;
  return switched < chunks.size() ? &chunks[switched] : nullptr;
}

LiveChunk::LiveChunk(Memory& memory, CopyEngine& engine, LiveRange& whole, std::size_t slot,
                     std::size_t which)
    : transaction(memory, engine, whole.allocation, slot, whole.task->to),
      range(whole),
      number(which) {}

/// Another move has the turn through its stop: the program's reads and writes of this memory, which
/// take `operations()`, must not wait for that.
void LiveChunk::prepare_source(ChunkStore& chunks) {
  Mutex& turn = chunks.slow_calls().turn();
  while (true) {
    {
      const MutexLock operations(range.allocation.operations());
      if (transaction.source_is_prepared()) return;
      SlowCallTurn mine(turn);
      if (mine.try_take()) return transaction.prepare_source(ChunkStore::Turn::held);
    }
    const MutexLock until_free(turn);
  }
}

void LiveRange::begun(LiveChunk& chunk) noexcept {
  if (chunk.begun) return;
  chunk.begun = parts.memory.driver().clock().now();
  parts.observers.tell(step_of(chunk, ChunkStep::Kind::begun));
}

void LiveRange::stopped(StopKind kind, const GateTimes& times) noexcept {
  report.stop = kind;
  if (kind == StopKind::gate) stops.add_skew(times.skew());
  stops.add_stall(times.stall());
}

void LiveRange::tell_stopped(const LiveChunk& first, const GateTimes& times,
                             std::size_t streams) noexcept {
  ChunkStep step = step_of(first, ChunkStep::Kind::stopped);
  step.begin = times.last_arrival;
  step.end = times.opened;
  step.skew = times.skew();
  step.streams = static_cast<std::uint32_t>(streams);
  parts.observers.tell(step);
}

void LiveRange::gave_up(StopRefusal::Why why) noexcept {
  ++report.retries;
  count(to_string(why));
}

void LiveRange::moved(LiveChunk& chunk, std::optional<std::uint64_t> copied_twice) noexcept {
  note_moved(report, chunk.transaction);
  report.bytes_copied_twice += copied_twice.value_or(0);
  report.chunks_live += copied_twice ? 1 : 0;
  if (!chunk.choice.reason.empty()) count(chunk.choice.reason);
  report.dark_max = std::max(report.dark_max, chunk.transaction.dark());
  chunk.ended = true;
  parts.observers.tell(step_of(chunk, ChunkStep::Kind::moved));
}

void LiveRange::failed(const LiveChunk& chunk, const std::exception& error) noexcept {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && known->kind() == ErrorKind::cancelled) return;
  note_failure(report, chunk.transaction, error);  // There is room for one.
}

void LiveRange::finish() noexcept {
  for (LiveChunk& chunk : chunks) {
    if (!chunk.begun || std::exchange(chunk.ended, true)) continue;
    parts.observers.tell(step_of(chunk, ChunkStep::Kind::stayed));
  }
  report.wall = parts.memory.driver().clock().now() - since;
  report.skew = stops.skew();
  report.stall = stops.stall();
  if (first_left() == nullptr) report.outcome = Outcome::done;  // Otherwise its error says.
  log_phases();
}

ChunkStep LiveRange::step_of(const LiveChunk& chunk, ChunkStep::Kind kind) const noexcept {
  ChunkStep step = vma::step_of(chunk.transaction, kind, report, task->terms);
  step.begin = chunk.begun.value_or(TimePoint(0));
  step.end = parts.memory.driver().clock().now();
  step.stall = chunk.stall;
  return step;
}

/// If the host is out of memory, a reason is less important than the move.
void LiveRange::count(std::string_view reason) noexcept {
  try {
    ++report.reasons[std::string(reason)];
  } catch (const std::bad_alloc&) {  // Not counted.
  }
}

/// Helps to explain why moves take as long as they do.
void LiveRange::log_phases() const {
  const auto us = [](std::chrono::nanoseconds time) { return in_seconds(time) * 1e6; };
  const Phases& phases = report.phases;
  log(LogLevel::debug,
      "{}: {} chunks, {} of them live, {} retries; us: cache {:.0f}, wait {:.0f}, copy {:.0f}, "
      "settle {:.0f}, unmap {:.0f}, map {:.0f}, grant {:.0f}, retire {:.0f}; longest stall {:.0f}",
      report.route, report.chunks_moved, report.chunks_live, report.retries, us(phases.cache),
      us(phases.wait), us(phases.copy), us(phases.settle), us(phases.unmap), us(phases.map),
      us(phases.grant), us(phases.retire), us(report.stall.max));
  for (const auto& [reason, count] : report.reasons)
    log(LogLevel::debug, "{}: {} times {}", report.route, count, reason);
}

LiveRanges::LiveRanges(MigrationParts& parts, LiveTasks& tasks,
                       std::shared_ptr<MigrationTask> first)
    : parts_(parts), tasks_(tasks), first_(std::move(first)) {}

LiveRange* LiveRanges::add_first() noexcept {
  return add(first_);
}

LiveRange* LiveRanges::join() noexcept {
  while (std::shared_ptr<MigrationTask> task = tasks_.take_beside(*first_)) {
    if (LiveRange* const range = add(std::move(task))) return range;
  }
  return nullptr;
}

LiveRange* LiveRanges::add(std::shared_ptr<MigrationTask> task) noexcept {
  try {
    ranges_.emplace_back(parts_, task);
  } catch (...) {
    // Copying its report allocates nothing yet: it has neither texts nor failures.
    MigrationReport report = task->report();
    tasks_.ended(std::move(task), std::move(report), std::current_exception());
    return nullptr;
  }
  LiveRange& range = ranges_.back();
  if (!hurry_) hurry_.emplace(parts_.memory.chunks());
  try {
    range.plan();
    if (range.chunks.empty()) range.require_movable();
  } catch (...) {
    end(range, std::current_exception());
    return nullptr;
  }
  return &range;
}

void LiveRanges::end(LiveRange& range, std::exception_ptr failure) noexcept {
  range.finish();
  std::shared_ptr<MigrationTask> task = range.task;
  MigrationReport report = std::move(range.report);
  ranges_.remove_if([&](const LiveRange& other) { return &other == &range; });
  if (ranges_.empty()) hurry_.reset();
  tasks_.ended(std::move(task), std::move(report), std::move(failure));
}

LiveChunk* LiveRanges::first_left() noexcept {
  end_complete();
  return ranges_.empty() ? nullptr : ranges_.front().first_left();
}

void LiveRanges::end_complete() noexcept {
  const auto next_complete = [this] {
    return std::ranges::find_if(ranges_,
                                [](LiveRange& range) { return range.first_left() == nullptr; });
  };
  for (auto range = next_complete(); range != ranges_.end(); range = next_complete()) {
    end(*range, nullptr);
  }
}

bool LiveRanges::postpone_pinned(LiveRange& range) noexcept {
  if (range.allocation.may_move()) {
    range.pinned_since.reset();
    return false;
  }
  if (!range.pinned_since) range.pinned_since = parts_.memory.driver().clock().now();
  if (!range.task->options.wait_for_pins) return false;
  const bool others = std::ranges::any_of(
      ranges_, [](const LiveRange& other) { return other.allocation.may_move(); });
  if (!others && join() == nullptr) return false;
  const auto here =
      std::ranges::find_if(ranges_, [&](const LiveRange& other) { return &other == &range; });
  ranges_.splice(ranges_.end(), ranges_, here);
  return true;
}

LiveChunk* LiveRanges::next(const LiveChunk& chunk) noexcept {
  for (std::size_t number = chunk.number + 1; number < chunk.range.chunks.size(); ++number) {
    if (!chunk.range.chunks[number].switched()) return &chunk.range.chunks[number];
  }
  const auto here =
      std::ranges::find_if(ranges_, [&](const LiveRange& range) { return &range == &chunk.range; });
  for (auto next = std::next(here); next != ranges_.end(); ++next) {
    if (LiveChunk* const first = next->first_left()) return first;
  }
  return nullptr;
}

LiveChunk* LiveRanges::after(const LiveChunk& chunk) noexcept {
  if (LiveChunk* const listed = next(chunk)) return listed;
  while (LiveRange* const joined = join()) {
    if (LiveChunk* const first = joined->first_left()) return first;
  }
  return nullptr;
}

LiveChunk* LiveRanges::first_broken() noexcept {
  for (LiveRange& range : ranges_) {
    const auto found = std::ranges::find_if(range.chunks, &LiveChunk::broken);
    if (found != range.chunks.end()) return &*found;
  }
  return nullptr;
}

bool LiveRanges::any_unwanted() const noexcept {
  return std::ranges::any_of(ranges_, &LiveRange::unwanted);
}

}  // namespace vma
