#include "migrate/live/live_ranges.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vma {

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
