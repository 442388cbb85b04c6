#include "migrate/live/live_move.hpp"

#include "base/check.hpp"
#include "base/mapping_limit.hpp"
#include "base/nvtx.hpp"
#include "migrate/live/batch_stop.hpp"
#include "migrate/migration/migration_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <set>

namespace vma {

LiveMove::LiveMove(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
                   MigrationReport& report)
    : parts_(parts),
      task_(task),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      account_(parts, task, allocation, report),
      conditions_(parts, task, allocation, report),
      notices_(allocation, parts.callbacks),
      staging_(parts, task, allocation, conditions_, account_, notices_, chunks_),
      tries_(parts, task.options, allocation, conditions_, account_) {}

void LiveMove::run() {
  const TimePoint start = clock_.now();
  try {
    naming_mapping_limit(live_move_call, [this] {
      plan();
      move_all();
    });
  } catch (const Error& error) {
    finish(start);
    throw migration_error(error, account_.report(), allocation_);
  } catch (...) {
    finish(start);
    throw;
  }
  finish(start);
}

void LiveMove::plan() {
  if (task_.terms.choice == PlaceChoice::runtime) {
    parts_.reach.require(allocation_, task_.range, task_.to, live_move_call);
  }
  parts_.reach.require_atomics(allocation_, task_.range, task_.to, live_move_call);
  std::set<Location> sources;
  for (std::size_t slot = task_.range.first; slot < task_.range.end; ++slot) {
    const Location from = allocation_.home(slot);
    if (from == task_.to) continue;
    chunks_.emplace_back(memory_, parts_.engine, allocation_, slot, task_.to, chunks_.size());
    sources.insert(from);
  }
  for (const Location from : sources) account_.crosses(from);
}

void LiveMove::move_all() {
  conditions_.require_movable(tries_.deadline());
  if (task_.options.reserve_first) staging_.reserve_all();
  while (LiveChunk* const first = first_left()) {
    LiveBatch batch;
    try {
      conditions_.require_going_on();
      batch = staging_.make_batch(*first);
      complete(batch);
    } catch (const std::exception& error) {
      const auto broken = std::ranges::find_if(batch.chunks, [](const LiveChunk* chunk) {
        return chunk->transaction.state() >= Transaction::State::stayed;
      });
      const LiveChunk& next = batch.chunks.empty() ? *first : batch.front();
      account_.failed(broken == batch.chunks.end() ? next : **broken, error);
      throw;
    }
  }
}

LiveChunk* LiveMove::first_left() noexcept {
  while (switched_ < chunks_.size() && chunks_[switched_].switched()) ++switched_;
  return switched_ < chunks_.size() ? &chunks_[switched_] : nullptr;
}

/// Stops for the batch until some of it is switched, or until the tries or the time are used up.
void LiveMove::complete(LiveBatch& batch) {
  const NvtxRange range([&] {
    return fmt::format("vmart move {:#x} to {}, {} chunk(s)",
                       to_integer(allocation_.slot_begin(batch.front().transaction.slot())),
                       to_string(task_.to), batch.chunks.size());
  });
  staging_.stage_ahead(batch);
  tries_.begin(batch);
  while (true) {
    if (batch.tries + batch.waits > 0 ||
        std::ranges::any_of(batch.chunks, &LiveChunk::went_stale)) {
      staging_.choose_again(batch);
    }
    for (LiveChunk* const chunk : batch.chunks) staging_.await_copy(*chunk);
    conditions_.require_movable(batch.deadline);
    for (const LiveChunk* const chunk : batch.chunks) {
      notices_.before(chunk->transaction.slot(), chunk->transaction.from(), task_.to);
    }
    tries_.await_budget(batch);
    conditions_.require_going_on();
    Try last;
    {
      const MutexLock operations(allocation_.operations());
      if (!ready_to_stop(batch)) continue;
      last = stop_once(batch);
    }
    const bool moved = retire_switched(batch);
    for (LiveChunk* const chunk : batch.chunks) staging_.stand_down(*chunk);
    if (last.failure) std::rethrow_exception(last.failure);
    if (moved && !batch.any_stayed()) return;
    const Gate::Refusal endless{StopRefusal::settle_late,
                                "the work that copies what the streams wrote does not end"};
    tries_.give_up_or_back_off(batch, last.refusal.value_or(endless), last.stood);
  }
}

/// Requires: the caller holds `operations()`. False: something has changed since the last look,
/// which is not a try. Throws: Error if the streams can no longer be stopped.
bool LiveMove::ready_to_stop(LiveBatch& batch) {
  if (!allocation_.may_move()) return false;  // Pinned since.
  for (LiveChunk* const chunk : batch.chunks) {
    Transaction& transaction = chunk->transaction;
    // A hook was added, or writing is allowed.
    if (!notices_.all_told(transaction.slot()) || chunk->went_stale()) return false;
    if (chunk->choice.way == Way::remapped && transaction.state() == Transaction::State::ready) {
      transaction.note_clean();  // Stays so until `operations` are released.
    }
  }
  conditions_.require_streams();
  const bool any = parts_.stops.attached().any(allocation_.begin());
  conditions_.require_going_on();  // A free sets `being_freed` before it forgets streams.
  if (!any) {
    // Their last work may still run, and there is no stream left to query.
    throw Error(ErrorKind::invalid_argument, live_move_call,
                "every attached stream that may use the allocation was detached during the move");
  }
  return true;
}

/// Whether a write may have happened since the live copy of the chunk began.
bool LiveMove::must_settle(const LiveChunk& chunk) const {
  const bool unchanged = chunk.read_only_since == allocation_.writable_epoch();
  return chunk.copier != nullptr && !(unchanged && allocation_.read_only());
}

/// Requires: the caller holds `operations()`.
LiveMove::Try LiveMove::stop_once(LiveBatch& batch) {
  for (LiveChunk* const chunk : batch.chunks) {
    VMART_CHECK(chunk->copier == nullptr || staging_.leased(*chunk),
                "the copier belongs to this move");
    chunk->settles = must_settle(*chunk);
  }
  tries_.set_limit(batch);
  BatchStop stop(parts_, task_, batch, staging_.max_stall());
  Try result;
  try {
    result.refusal = stop.run(account_.phases());
  } catch (...) {
    result.failure = std::current_exception();
  }
  result.stood = stop.times().first_arrival > TimePoint(0);
  account_.stopped(batch, stop.times(), stop.all_stood(), stop.streams());
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

/// Whether any chunk of the batch has switched. Those are its first ones, and leave it.
bool LiveMove::retire_switched(LiveBatch& batch) noexcept {
  const auto left = std::ranges::find_if_not(batch.chunks, &LiveChunk::switched);
  const bool moved = left != batch.chunks.begin();
  for (auto chunk = batch.chunks.begin(); chunk != left; ++chunk) {
    retire(**chunk);
    task_.tell(account_.report());
  }
  batch.chunks.erase(batch.chunks.begin(), left);
  return moved;
}

/// The chunk has moved.
void LiveMove::retire(LiveChunk& chunk) noexcept {
  const TimePoint start = clock_.now();
  const std::optional<std::uint64_t> copied_twice = staging_.retire(chunk);
  if (chunk.transaction.give_source_up(task_.options, task_.terms)) account_.kept_copy();
  notices_.after(chunk.transaction.slot(), true);
  account_.moved(chunk, copied_twice);
  staging_.keep_room_for_digests(chunk);
  account_.phases().retire += clock_.now() - start;
}

void LiveMove::finish(TimePoint start) noexcept {
  for (LiveChunk& chunk : chunks_) account_.stayed(chunk);
  account_.finish(clock_.now() - start, chunks_.size());
}

}  // namespace vma
