#include "migrate/live/live_migration.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/nvtx.hpp"
#include "base/units.hpp"
#include "migrate/migration/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// While a gate waits for so long, reads, writes and pins of its allocations wait, too.
constexpr std::chrono::milliseconds operations_kept(100);

std::vector<Allocation*> allocations_of(const LiveBatch& batch) {
  std::vector<Allocation*> allocations;
  for_each_range(batch, [&](LiveRange& range) { allocations.push_back(&range.allocation); });
  return allocations;
}

}  // namespace

LiveMigration::LiveMigration(MigrationParts& parts, LiveTasks& tasks,
                             std::shared_ptr<MigrationTask> first)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      ranges_(parts, tasks, std::move(first)),
      conditions_(parts, ranges_),
      staging_(parts, ranges_, conditions_) {}

void LiveMigration::run() noexcept {
  begin();
  do {
    while (LiveChunk* const first = ranges_.first_left()) {
      if (!ranges_.postpone_pinned(first->range)) move_next(*first);
    }
  } while (ranges_.join() != nullptr);
}

/// Runs `body`; what it throws ends migrations, with nothing stopped.
template <typename Body>
void LiveMigration::ending_what_fails(Body&& body) noexcept {
  try {
    body();
  } catch (const UnwantedRange&) {
    call_off();
    end_unwanted();
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    call_off();
    fail_concerned(failure);
  }
}

/// Before anything is copied or stopped.
void LiveMigration::begin() {
  LiveRange* const range = ranges_.add_first();
  if (range == nullptr || !range->task->options.reserve_first) return;
  concerned_ = range->first_left();
  if (concerned_ == nullptr) return;
  ending_what_fails([&] {
    conditions_.require_movable(*range, conditions_.deadline(*range));
    staging_.reserve_all(*range);
  });
}

/// Moves it, with those that fit into the same stop, or ends its migration. While that waits for a
/// pin, others may join.
void LiveMigration::move_next(LiveChunk& first) {
  ending_what_fails([&] {
    concerned_ = &first;
    if (first.broken()) {
      throw Error(ErrorKind::driver_failure, live_move_call,
                  "work of the runtime on the chunk does not end");
    }
    conditions_.require_going_on();
    if (!conditions_.movable(first.range, conditions_.deadline(first.range))) return;
    first.range.pinned_since.reset();
    require_stop(first);
    batch_.emplace(staging_.make_batch(first));
    staging_.stage_ahead(*batch_);
    conditions_.begin_tries(*batch_);
    while (batch_) try_batch();
  });
}

/// Finds out how the program's work can be stopped. Where streams are attached, gates do until it
/// is known whether work can be suspended.
/// Throws: Error if it cannot be.
void LiveMigration::require_stop(const LiveChunk& first) {
  const Place from = first.transaction.from(), to = first.range.task->to;
  if (parts_.stops.attached().any(first.range.allocation.begin())) {
    return staging_.ways().foresee(first.transaction);
  }
  if (parts_.stops.may_suspend(from, to) || parts_.memory.driver().has_context_hold()) return;
  throw Error(ErrorKind::unsupported, live_move_call,
              fmt::format("the program's work on {} cannot be suspended, as 'vmart doctor' "
                          "explains, this driver holds no context, and no attached stream may use "
                          "the allocation; attach the streams that use it",
                          to_string(from)));
}

/// One try to stop for the batch. Its chunks that have switched, and migrations that cannot go on,
/// leave it; it is done once a chunk has switched or none is left.
void LiveMigration::try_batch() {
  LiveBatch& batch = *batch_;
  const NvtxRange range([&] {
    return fmt::format(
        "vmart move {:#x} to {}, {} chunk(s)",
        to_integer(batch.front().range.allocation.slot_begin(batch.front().transaction.slot())),
        to_string(batch.front().range.task->to), batch.chunks.size());
  });
  prepare_to_stop(batch);
  if (batch.chunks.empty()) return finish();
  const std::optional<Try> last = stop_once(batch);
  if (!last) return stop_ ? end_try() : void();  // Something has changed: that is not a try.
  const bool moved = retire_switched(batch);
  const bool broken = batch.broken() != nullptr;
  end_try();
  ranges_.end_complete();
  if (batch.chunks.empty() || (moved && !broken && !last->failure)) return finish();
  concerned_ = &batch.front();
  if (last->failure) std::rethrow_exception(last->failure);
  give_up_or_back_off(batch, *last);
}

/// The try has ended. The chunks of the batch are staged as before, unless their settling does not
/// end. Blocks: until it has, or for that.
void LiveMigration::end_try() noexcept {
  if (stop_) stop_->call_off();
  stop_.reset();
  turn_.reset();
  for (LiveChunk* const chunk : batch_->chunks) staging_.end_try(*chunk);
}

/// Chunks that have not moved can be staged for another batch.
void LiveMigration::finish() noexcept {
  stop_.reset();
  turn_.reset();
  batch_.reset();
}

void LiveMigration::call_off() noexcept {
  if (batch_) end_try();
  finish();
}

void LiveMigration::give_up_or_back_off(LiveBatch& batch, const Try& last) {
  const StopRefusal endless{StopRefusal::settle_late,
                            "the work that copies what the streams wrote does not end"};
  const StopRefusal& refusal = last.refusal ? *last.refusal : endless;
  // Before anything else: such a chunk must not be tried again.
  if (batch.broken() == nullptr) conditions_.require_going_on();
  parts_.stops.stats().add_refusal(refusal.why);
  for_each_range(batch, [&](LiveRange& range) { range.gave_up(refusal.why); });
  for_each_group(batch, [](GroupAccount& group) { group.gave_up(1); });
  if (batch.front().choice.gives_way && batch.broken() == nullptr) {
    staging_.ways().leave_gates();
    ++batch.waits;
    return;
  }
  // Told ahead, streams have to arrive as predicted.
  if (refusal.why == StopRefusal::predicted_skew) batch.blocked = false;
  const auto error = conditions_.give_up_or_back_off(batch, refusal, last.stopped);
  if (!error) return;
  if (error->kind() != ErrorKind::busy) throw *error;
  fail_all(batch, *error);
  finish();
}

/// Waits for all that need not wait under a gate, and for the turn to stop anything.
void LiveMigration::prepare_to_stop(LiveBatch& batch) {
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
  if (gave_turn_up_) await_others();
  // Only the first migration waits for its pins; the others do so when they are the first.
  const LiveChunk& first = batch.front();
  std::erase_if(batch.chunks, [&](const LiveChunk* chunk) {
    const LiveRange& other = chunk->range;
    if (&other == &first.range) return false;
    return !other.allocation.may_move() || !staging_.same_streams(first, other);
  });
  for (LiveChunk* const chunk : batch.chunks) {
    concerned_ = chunk;
    chunk->range.notices.before(chunk->transaction.slot(), chunk->transaction.from(),
                                chunk->range.task->to);
  }
  conditions_.await_budget(batch);
  conditions_.require_going_on();
}

/// Lets those have their turn for which it was given up.
void LiveMigration::await_others() {
  constexpr std::chrono::milliseconds look_period(1), limit(100);
  const TimePoint end = clock_.now() + limit;
  while (parts_.stops.waiting().any() && clock_.now() < end) {
    conditions_.pause_until(clock_.now() + look_period);
  }
  gave_turn_up_ = false;
}

/// Whether nothing has changed since the chunks were staged. Requires: the caller holds
/// `operations()`.
bool LiveMigration::chunks_ready(const LiveBatch& batch) const {
  return std::ranges::all_of(batch.chunks, [](const LiveChunk* chunk) {
    // It was pinned, a hook was added, or writing is allowed.
    return chunk->range.allocation.may_move() &&
           chunk->range.notices.all_told(chunk->transaction.slot()) && !chunk->went_stale();
  });
}

/// Throws: Error if the streams can no longer be stopped. Requires: nothing is stopped.
void LiveMigration::require_streams(const LiveBatch& batch) {
  if (batch.stop() != StopKind::gate) return conditions_.require_going_on();
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
}

/// Whether a write may have happened since the live copy of the chunk began.
bool LiveMigration::must_settle(const LiveChunk& chunk) const {
  const Allocation& allocation = chunk.range.allocation;
  const bool unchanged = chunk.read_only_since == allocation.writable_epoch();
  return chunk.copier != nullptr && !(unchanged && allocation.read_only());
}

/// None: something has changed, or a hold needs the turn; that is not a try.
std::optional<LiveMigration::Try> LiveMigration::stop_once(LiveBatch& batch) {
  AllOperations operations(allocations_of(batch));
  Try result;
  conditions_.set_limit(batch);
  require_streams(batch);
  concerned_ = &batch.front();
  if (batch.stop() == StopKind::gate) {
    noting_failure(result, [&] {
      Stops::Turn turn(parts_.stops);
      return BatchStop(parts_, ranges_, batch, staging_.max_stall(), turn).look();
    });
    if (result.refusal || result.failure) return result;
  }
  operations.take();
  if (!chunks_ready(batch)) return std::nullopt;
  for (LiveChunk* const chunk : batch.chunks) make_ready(*chunk);
  turn_.emplace(parts_.stops);
  stop_.emplace(parts_, ranges_, batch, staging_.max_stall(), *turn_);
  noting_failure(result, [&] { return stop_->send(); });
  if (!result.refusal && !result.failure) {
    if (!await_first(batch, operations)) return std::nullopt;
    noting_failure(result, [&] { return stop_->switch_chunks(); });
  }
  turn_.reset();  // Hooks are called next, which may wait for a thread that waits for the turn.
  account_for(batch, *stop_, result);
  return result;
}

template <typename Body>
void LiveMigration::noting_failure(Try& result, Body&& body) {
  try {
    result.refusal = body();
  } catch (...) {
    result.failure = std::current_exception();
  }
}

/// Requires: the caller holds `operations()`.
void LiveMigration::make_ready(LiveChunk& chunk) {
  VMART_CHECK(chunk.copier == nullptr || staging_.leased(chunk), "the copier belongs to this move");
  Transaction& transaction = chunk.transaction;
  if (chunk.choice.way == Way::remapped && transaction.state() == Transaction::State::ready) {
    transaction.note_clean();  // Stays so until `operations` are released.
  }
  chunk.settles = must_settle(chunk);
}

/// Waits for the streams; on return the move has `operations`. False: the batch cannot move at this
/// stop, or a hold needs the turn.
bool LiveMigration::await_first(LiveBatch& batch, AllOperations& operations) {
  const TimePoint begun = clock_.now();
  bool looked = true;  // At the chunks, since the move has `operations`.
  while (!stop_->await_first(clock_.now() + operations_kept)) {
    operations.let_go();
    looked = false;
    const Stops::Waiting others = parts_.stops.waiting();
    const bool long_enough = others.gates > 0 && clock_.now() - begun >= batch.turn_limit();
    gave_turn_up_ = others.holds > 0 || long_enough;
    if (long_enough) ++batch.waits;
    if (gave_turn_up_) return false;
  }
  if (looked) return true;  // Streams may be stopped now.
  constexpr std::chrono::microseconds look_period(20);
  const TimePoint end = clock_.now() + batch.gate_limit;
  while (!operations.try_take()) {
    if (clock_.now() >= end) return false;
    nap_until(clock_, std::min<TimePoint>(end, clock_.now() + look_period));
  }
  return chunks_ready(batch) && std::ranges::all_of(batch.chunks, [&](const LiveChunk* chunk) {
           return chunk->settles || !must_settle(*chunk);
         });
}

/// A gate counts once for the runtime, and once for each migration that had chunks at it.
void LiveMigration::account_for(LiveBatch& batch, const BatchStop& stop, Try& result) noexcept {
  const GateTimes& times = stop.times();
  result.stopped = times.first_arrival > TimePoint(0);
  // A call of ours blocked in the application's context before all streams were stopped; or the
  // streams themselves waited for the settling work there, more than their backlogs explain.
  const bool waited = (result.refusal && result.refusal->why == StopRefusal::opened_by_watchdog) ||
                      (batch.overdue && stop.overdue());
  if (waited && !stop.all_stopped()) {
    batch.blocked = result.stopped;
    // If all have arrived, only this thread was late, and none waited for the settling work.
    if (batch.way() == Way::live && !stop.all_arrived())
      staging_.ways().leave_application_context();
  }
  log(LogLevel::debug, "{} for {} chunks and {} streams: {} switched, stopped for {:.0f} us{}{}",
      to_string(batch.stop()), batch.chunks.size(), stop.streams(),
      std::ranges::count_if(batch.chunks, &LiveChunk::switched),
      stop.all_stopped() ? in_seconds(times.stall()) * 1e6 : 0.0, result.refusal ? ": " : "",
      result.refusal ? result.refusal->detail : "");
  if (stop.tried()) batch.overdue = stop.overdue();
  for_each_range(batch, [&](LiveRange& range) {
    range.report.gate_limit = std::max(range.report.gate_limit, batch.gate_limit);
  });
  if (times.first_arrival != TimePoint(0)) {
    parts_.budget.spent_stall(times.first_arrival, times.opened - times.first_arrival);
  }
  if (!stop.all_stopped()) return;
  const StopKind kind = batch.stop();
  std::optional<std::chrono::nanoseconds> skew;  // Of a gate.
  if (kind == StopKind::gate) skew = times.skew();
  if (skew) parts_.stops.stats(kind).add_skew(*skew);
  parts_.stops.stats(kind).add_stall(times.stall());
  for_each_range(batch, [&](LiveRange& range) { range.stopped(kind, times); });
  for_each_group(batch, [&](GroupAccount& group) { group.stopped(skew, times.stall()); });
  const auto sharers = static_cast<std::int64_t>(batch.chunks.size());
  for (LiveChunk* const chunk : batch.chunks) chunk->stall += times.stall() / sharers;
  batch.front().range.tell_stopped(batch.front(), times, stop.streams());
}

/// Whether any chunk of the batch has switched. Those leave it.
bool LiveMigration::retire_switched(LiveBatch& batch) noexcept {
  bool moved = false;
  for (LiveChunk* const chunk : batch.chunks) {
    if (!chunk->switched()) continue;
    moved = true;
    retire(*chunk);
    chunk->range.task->tell(chunk->range.report);
  }
  std::erase_if(batch.chunks, [](const LiveChunk* chunk) { return chunk->switched(); });
  return moved;
}

/// The chunk has moved.
void LiveMigration::retire(LiveChunk& chunk) noexcept {
  const TimePoint start = clock_.now();
  LiveRange& range = chunk.range;
  const std::optional<std::uint64_t> copied_twice = staging_.retire(chunk);
  if (chunk.transaction.give_source_up(range.task->options, range.task->terms)) {
    ++range.report.copies_kept;
  }
  range.notices.after(chunk.transaction.slot(), true);
  range.moved(chunk, copied_twice);
  staging_.keep_room_for_digests(chunk);
  range.report.phases.retire += clock_.now() - start;
}

/// The chunk's migration ends with an error, because of the chunk.
void LiveMigration::fail(const LiveChunk& chunk, std::exception_ptr failure) noexcept {
  LiveRange& range = chunk.range;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    range.failed(chunk, error);
  } catch (...) {
    VMART_CHECK(false, "only exceptions of the standard library are thrown");
  }
  staging_.unstage(range);
  ranges_.end(range, std::move(failure));
}

/// Ends the migrations with broken chunks, or else the one that the failure concerns.
void LiveMigration::fail_concerned(const std::exception_ptr& failure) noexcept {
  LiveChunk* broken = ranges_.first_broken();
  if (broken == nullptr) return fail(*concerned_, failure);
  for (; broken != nullptr; broken = ranges_.first_broken()) fail(*broken, failure);
}

/// They were tried together, for as long as each may be.
void LiveMigration::fail_all(LiveBatch& batch, const Error& error) noexcept {
  while (!batch.chunks.empty()) {
    const LiveChunk& chunk = batch.front();
    batch.leave_out(chunk.range);
    fail(chunk, std::make_exception_ptr(error));
  }
}

/// Ends migrations that were cancelled or whose memory is being freed.
void LiveMigration::end_unwanted() noexcept {
  const auto next_unwanted = [&] {
    return std::ranges::find_if(ranges_.all(), &LiveRange::unwanted);
  };
  for (auto range = next_unwanted(); range != ranges_.all().end(); range = next_unwanted()) {
    std::exception_ptr failure = cancelled_after(range->report, range->allocation, live_move_call);
    staging_.unstage(*range);
    ranges_.end(*range, std::move(failure));
  }
}

}  // namespace vma
