#include "migrate/live/live_move.hpp"

#include "base/check.hpp"
#include "base/nvtx.hpp"
#include "migrate/migration/all_operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace vma {
namespace {

std::vector<Allocation*> allocations_of(const LiveBatch& batch) {
  std::vector<Allocation*> allocations;
  for_each_range(batch, [&](LiveRange& range) { allocations.push_back(&range.allocation); });
  return allocations;
}

}  // namespace

LiveMove::LiveMove(const MoveParts& parts, LiveTasks& tasks, std::shared_ptr<MigrationTask> first)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      ranges_(parts, tasks, std::move(first)),
      conditions_(parts, ranges_),
      staging_(parts, ranges_, conditions_),
      tries_(parts, conditions_) {}

void LiveMove::run() noexcept {
  begin();
  do {
    while (LiveChunk* const first = ranges_.first_left()) {
      if (!ranges_.postpone_pinned(first->range)) move_next(*first);
    }
  } while (ranges_.join() != nullptr);
}

/// Runs `body`; what it throws ends migrations, which leave the batch.
template <typename Body>
void LiveMove::ending_what_fails(LiveBatch& batch, Body&& body) noexcept {
  try {
    body();
  } catch (const UnwantedRange&) {
    end_unwanted(batch);
  } catch (...) {
    fail_concerned(batch);
  }
}

/// Before anything is copied or stopped.
void LiveMove::begin() {
  LiveRange* const range = ranges_.add_first();
  if (range == nullptr || !range->task->options.reserve_first) return;
  concerned_ = range->first_left();
  if (concerned_ == nullptr) return;
  LiveBatch none;
  ending_what_fails(none, [&] {
    conditions_.require_movable(*range, tries_.deadline(*range));
    staging_.reserve_all(*range);
  });
}

/// Moves it, or ends its migration. While that waits for a pin, others may join.
void LiveMove::move_next(LiveChunk& first) {
  LiveBatch batch;
  concerned_ = &first;
  ending_what_fails(batch, [&] {
    conditions_.require_going_on();
    if (!conditions_.movable(first.range, tries_.deadline(first.range))) return;
    first.range.pinned_since.reset();
    batch = staging_.make_batch(first);
    complete(batch);
  });
}

/// Stops for the batch until some of it is switched, or until the tries or the time are used up.
void LiveMove::complete(LiveBatch& batch) {
  const NvtxRange range([&] {
    return fmt::format(
        "vmart move {:#x} to {}, {} chunk(s)",
        to_integer(batch.front().range.allocation.slot_begin(batch.front().transaction.slot())),
        to_string(ranges_.first().to), batch.chunks.size());
  });
  staging_.stage_ahead(batch);
  tries_.begin(batch);
  while (!batch.chunks.empty()) {
    try {
      if (try_once(batch)) return;
    } catch (const UnwantedRange&) {
      end_unwanted(batch);
    }
  }
}

/// True once a chunk has switched, or once the migrations of the batch have ended.
bool LiveMove::try_once(LiveBatch& batch) {
  prepare_to_stop(batch);
  Try last;
  {
    const AllOperations operations(allocations_of(batch));
    if (!ready_to_stop(batch)) return false;
    last = stop_once(batch);
  }
  const bool moved = retire_switched(batch);
  for (LiveChunk* const chunk : batch.chunks) staging_.stand_down(*chunk);
  if (batch.chunks.empty()) return true;
  concerned_ = &batch.front();
  if (last.failure) std::rethrow_exception(last.failure);
  const bool broken = batch.broken() != nullptr;
  if (moved && !broken) return true;
  const Gate::Refusal endless{StopRefusal::settle_late,
                              "the work that copies what the streams wrote does not end"};
  const Gate::Refusal& refusal = last.refusal ? *last.refusal : endless;
  // Before anything else: such a chunk must not be tried again.
  if (!broken) conditions_.require_going_on();
  parts_.stops.stats().add_refusal(refusal.why);
  for_each_range(batch, [&](LiveRange& range) { range.account.gave_up(refusal.why); });
  for_each_group(batch, [](GroupAccount& group) { group.gave_up(1); });
  const auto error = tries_.give_up_or_back_off(batch, refusal, last.stood);
  if (!error) return false;
  if (error->kind() != ErrorKind::busy) throw *error;
  fail_all(batch, *error);
  return true;
}

/// Waits for all that need not wait under a gate, and for the turn to stop anything.
void LiveMove::prepare_to_stop(LiveBatch& batch) {
  concerned_ = &batch.front();
  if (batch.tries + batch.waits > 0 || std::ranges::any_of(batch.chunks, &LiveChunk::went_stale)) {
    staging_.choose_again(batch);
  }
  for (LiveChunk* const chunk : batch.chunks) {
    concerned_ = chunk;
    staging_.await_copy(*chunk);
  }
  concerned_ = &batch.front();
  conditions_.require_movable(batch.front().range, batch.deadline);
  // Only the first migration waits for its pins; the others do so when they are the first.
  const LiveRange& first = batch.front().range;
  std::erase_if(batch.chunks, [&](const LiveChunk* chunk) {
    const LiveRange& other = chunk->range;
    if (&other == &first) return false;
    return !other.allocation.may_move() || !staging_.same_streams(first, other);
  });
  for (LiveChunk* const chunk : batch.chunks) {
    concerned_ = chunk;
    chunk->range.notices.before(chunk->transaction.slot(), chunk->transaction.from(),
                                ranges_.first().to);
  }
  tries_.await_budget(batch);
  conditions_.require_going_on();
}

/// Requires: the caller holds `operations()`. False: something has changed since the last look,
/// which is not a try. Throws: Error if the streams can no longer be stopped.
bool LiveMove::ready_to_stop(LiveBatch& batch) {
  for (LiveChunk* const chunk : batch.chunks) {
    Transaction& transaction = chunk->transaction;
    if (!chunk->range.allocation.may_move()) return false;  // Pinned since.
    // A hook was added, or writing is allowed.
    if (!chunk->range.notices.all_told(transaction.slot()) || chunk->went_stale()) return false;
    if (chunk->choice.way == Way::remapped && transaction.state() == Transaction::State::ready) {
      transaction.note_clean();  // Stays so until `operations` are released.
    }
  }
  LiveChunk* detached = nullptr;
  for_each_range(batch, [&](LiveRange& range) {
    concerned_ = range.first_left();
    conditions_.require_streams(range);
    if (!parts_.stops.attached().any(range.allocation.begin())) detached = concerned_;
  });
  conditions_.require_going_on();  // A free sets `being_freed` before it forgets streams.
  if (detached != nullptr) {
    concerned_ = detached;
    // Their last work may still run, and there is no stream left to query.
    throw Error(ErrorKind::invalid_argument, live_move_call,
                "every attached stream that may use the allocation was detached during the move");
  }
  return true;
}

/// Whether a write may have happened since the live copy of the chunk began.
bool LiveMove::must_settle(const LiveChunk& chunk) const {
  const Allocation& allocation = chunk.range.allocation;
  const bool unchanged = chunk.read_only_since == allocation.writable_epoch();
  return chunk.copier != nullptr && !(unchanged && allocation.read_only());
}

/// Requires: the caller holds `operations()`.
LiveMove::Try LiveMove::stop_once(LiveBatch& batch) {
  concerned_ = &batch.front();
  for (LiveChunk* const chunk : batch.chunks) {
    VMART_CHECK(chunk->copier == nullptr || staging_.leased(*chunk),
                "the copier belongs to this move");
    chunk->settles = must_settle(*chunk);
  }
  tries_.set_limit(batch);
  BatchStop stop(parts_, ranges_, batch, staging_.max_stall());
  Try result;
  try {
    result.refusal = stop.run();
  } catch (...) {
    result.failure = std::current_exception();
  }
  result.stood = stop.times().first_arrival > TimePoint(0);
  account_for(batch, stop);
  // A call of ours blocked in the application's context before all streams were stopped; or the
  // streams themselves waited for the settling work there, more than their backlogs explain.
  const bool waited = (result.refusal && result.refusal->why == StopRefusal::opened_by_watchdog) ||
                      (batch.overdue && stop.overdue());
  if (waited && !stop.all_stood() && batch.way() == Way::live) {
    staging_.leave_application_context();
  }
  if (stop.tried()) batch.overdue = stop.overdue();
  return result;
}

/// A gate counts once for the runtime, and once for each migration that had chunks at it.
void LiveMove::account_for(const LiveBatch& batch, const BatchStop& stop) noexcept {
  const GateTimes& times = stop.times();
  for_each_range(batch, [&](LiveRange& range) { range.account.used_limit(batch.gate_limit); });
  if (times.first_arrival != TimePoint(0)) {
    parts_.pace.spent_stall(times.first_arrival, times.opened - times.first_arrival);
  }
  if (!stop.all_stood()) return;
  parts_.stops.stats().add_skew(times.skew());
  parts_.stops.stats().add_stall(times.stall());
  for_each_range(batch, [&](LiveRange& range) { range.account.stood(times); });
  for_each_group(batch, [&](GroupAccount& group) { group.stood(times.skew(), times.stall()); });
  const auto sharers = static_cast<std::int64_t>(batch.chunks.size());
  for (LiveChunk* const chunk : batch.chunks) chunk->stall += times.stall() / sharers;
  batch.front().range.account.tell_stood(batch.front(), times, stop.streams());
}

/// Whether any chunk of the batch has switched. Those are its first ones, and leave it; migrations
/// that are complete end now.
bool LiveMove::retire_switched(LiveBatch& batch) noexcept {
  const auto left = std::ranges::find_if_not(batch.chunks, &LiveChunk::switched);
  const bool moved = left != batch.chunks.begin();
  for (auto chunk = batch.chunks.begin(); chunk != left; ++chunk) {
    retire(**chunk);
    (*chunk)->range.task->tell((*chunk)->range.report);
  }
  batch.chunks.erase(batch.chunks.begin(), left);
  ranges_.end_complete();
  return moved;
}

/// The chunk has moved.
void LiveMove::retire(LiveChunk& chunk) noexcept {
  const TimePoint start = clock_.now();
  LiveRange& range = chunk.range;
  const std::optional<std::uint64_t> copied_twice = staging_.retire(chunk);
  if (chunk.transaction.give_source_up(range.task->options, range.task->terms)) {
    range.account.kept_copy();
  }
  range.notices.after(chunk.transaction.slot(), true);
  range.account.moved(chunk, copied_twice);
  staging_.keep_room_for_digests(chunk);
  range.report.phases.retire += clock_.now() - start;
}

/// The chunk's migration ends with an error, because of the chunk.
void LiveMove::fail(LiveBatch& batch, const LiveChunk& chunk, std::exception_ptr failure) noexcept {
  LiveRange& range = chunk.range;
  batch.leave_out(range);
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    range.account.failed(chunk, error);
  } catch (...) {
    VMART_CHECK(false, "only exceptions of the standard library are thrown");
  }
  staging_.unstage(range);
  ranges_.end(range, std::move(failure));
}

/// Handles the current exception: ends the migrations whose chunks it broke, or else the one that
/// it concerns.
void LiveMove::fail_concerned(LiveBatch& batch) noexcept {
  const std::exception_ptr failure = std::current_exception();
  if (batch.broken() == nullptr) return fail(batch, *concerned_, failure);
  while (const LiveChunk* const chunk = batch.broken()) fail(batch, *chunk, failure);
}

/// They were tried together, for as long as each may be.
void LiveMove::fail_all(LiveBatch& batch, const Error& error) noexcept {
  while (!batch.chunks.empty()) fail(batch, batch.front(), std::make_exception_ptr(error));
}

/// Ends migrations that were cancelled or whose memory is being freed.
void LiveMove::end_unwanted(LiveBatch& batch) noexcept {
  const auto next_unwanted = [&] {
    return std::ranges::find_if(ranges_.all(), &LiveRange::unwanted);
  };
  for (auto range = next_unwanted(); range != ranges_.all().end(); range = next_unwanted()) {
    batch.leave_out(*range);
    std::exception_ptr failure;
    try {
      failure = std::make_exception_ptr(Error(
          ErrorKind::cancelled, live_move_call,
          fmt::format("after {} of {} chunks{}", range->report.chunks_moved, range->report.chunks,
                      range->allocation.being_freed ? ", because the memory is being freed" : "")));
    } catch (...) {
      failure = std::current_exception();
    }
    staging_.unstage(*range);
    ranges_.end(*range, std::move(failure));
  }
}

}  // namespace vma
