#include "migrate/live/live_ranges.hpp"

#include "base/mapping_limit.hpp"
#include "migrate/migration/migration_error.hpp"

#include <iterator>
#include <set>
#include <utility>

namespace vma {

LiveRange::LiveRange(const MoveParts& parts, std::shared_ptr<MigrationTask> which)
    : task(std::move(which)),
      allocation(*task->allocation()),
      begun(parts.memory.driver().clock().now()),
      report(task->report()),
      account(parts, *task, allocation, report),
      notices(allocation, parts.callbacks),
      want(parts.memory.pressure()) {}

void LiveRange::plan(const MoveParts& parts) {
  if (task->refusal) std::rethrow_exception(task->refusal);
  const SlotRange range = task->range;
  if (task->terms.choice == PlaceChoice::runtime) {
    parts.reach.require(allocation, range, task->to, live_move_call);
  }
  parts.reach.require_atomics(allocation, range, task->to, live_move_call);
  std::set<Location> sources;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    const Location from = allocation.home(slot);
    if (from == task->to) continue;
    chunks.emplace_back(parts.memory, parts.engine, *this, slot, chunks.size());
    task->reserved.hand_over_to(chunks.back().transaction);
    sources.insert(from);
  }
  for (const Location from : sources) account.crosses(from);
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

LiveRanges::LiveRanges(const MoveParts& parts, LiveTasks& tasks,
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
    range.plan(parts_);
    if (range.chunks.empty()) range.require_movable();
  } catch (...) {
    end(range, std::current_exception());
    return nullptr;
  }
  return &range;
}

void LiveRanges::end(LiveRange& range, std::exception_ptr failure) noexcept {
  if (failure) {
    try {
      naming_mapping_limit(live_move_call, [&] { std::rethrow_exception(failure); });
    } catch (...) {
      failure = std::current_exception();
    }
  }
  for (LiveChunk& chunk : range.chunks) range.account.stayed(chunk);
  range.account.finish(parts_.memory.driver().clock().now() - range.begun, range.chunks.size());
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
