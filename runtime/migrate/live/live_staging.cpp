#include "migrate/live/live_staging.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "migrate/stops/stall_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <utility>

namespace vma {
namespace {

/// Chunks are staged for as many stops after the first one. Those of an allocation that the
/// program keeps writing to only for one, because what is copied early has to be copied again; and
/// those of one with hooks, which would be called long before the chunk moves.
constexpr int gates_ahead = 8;
constexpr double dirty_ahead_max = 0.1;
/// The first gate waits no longer for the staging of what follows.
constexpr std::chrono::milliseconds ahead_limit(20);
/// How much of the past a new chunk's dirtiness outweighs.
constexpr double dirt_weight = 0.5;
/// A chunk that went stopped for its dirtiness was not measured: after a while one is tried again.
constexpr double dirt_fading = 0.95;

/// For our own work that is no longer stopped and will end: a kernel of the application may occupy
/// every multiprocessor for seconds.
constexpr std::chrono::seconds patience(10);
/// The limit once the move has been cancelled, by the end of the runtime for instance.
constexpr std::chrono::seconds patience_cancelled(2);
/// For copies by copy engines, which nothing delays.
constexpr std::chrono::seconds patience_copy(2);

bool is_live(Way way) {
  return way == Way::live || way == Way::live_beside;
}

}  // namespace

LiveStaging::LiveStaging(MigrationParts& parts, LiveRanges& ranges,
                         const MoveConditions& conditions)
    : parts_(parts),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      ranges_(ranges),
      conditions_(conditions),
      ways_(parts),
      leases_(parts.copiers),
      copy_share_percent_(
          ranges.first().options.copy_share_percent.value_or(parts.limits.copy_share_percent)),
      max_stall_(ranges.first().options.max_stall.value_or(
          std::chrono::duration_cast<std::chrono::microseconds>(parts.limits.max_stall))) {}

void LiveStaging::reserve_all(LiveRange& range) {
  const TimePoint start = clock_.now();
  for (LiveChunk& chunk : range.chunks) take_target(chunk, Effort::patient);
  range.report.phases.cache += clock_.now() - start;
}

void LiveStaging::take_target(LiveChunk& chunk, Effort effort) {
  Transaction& transaction = chunk.transaction;
  const MigrationTask& task = *chunk.range.task;
  if (transaction.take_clean_target() || transaction.take_cached_target()) return;
  const auto ask = [&](Place at, std::uint64_t size_bytes) {
    if (effort != Effort::patient || !chunk.range.want.asks_for(at)) return false;
    unstage_all();
    leases_.give_up_all();     // Another move may need a copier to make the room,
    ranges_.lead_no_longer();  // or may be waiting to join this one.
    const bool again = chunk.range.want(at, size_bytes);
    conditions_.require_going_on();
    return again;
  };
  memory_.with_room(ask, task.to, transaction.size_bytes(),
                    [&] { transaction.take_target(ChunkStore::Turn::take); });
}

void LiveStaging::stage(LiveChunk& chunk) {
  if (chunk.staged) return;
  chunk.transaction.take_clean_target();
  if (!chunk.transaction.target_clean()) pace_copy(chunk);
  begin(chunk, choose(chunk), Effort::patient);
}

WayChoice LiveStaging::choose(const LiveChunk& chunk) const {
  return ways_.choose(chunk.transaction, chunk.range.task->options.mode);
}

LiveBatch LiveStaging::make_batch(LiveChunk& first) {
  stage(first);
  LiveBatch batch;
  batch.chunks.reserve(GateShare::chunks_max);
  batch.chunks.push_back(&first);
  std::chrono::nanoseconds left = planned_stall(first.choice) - stall_of_next(first, first);
  while (batch.chunks.size() < GateShare::chunks_max && left > std::chrono::nanoseconds(0)) {
    LiveChunk* const next = ranges_.after(*batch.chunks.back());
    if (next == nullptr) break;
    left -= stall_of_next(first, *next);
    if (left < std::chrono::nanoseconds(0) || !stage_beside(first, *next)) break;
    batch.chunks.push_back(next);
  }
  prepare_copies(batch);
  start_copies(batch);
  return batch;
}

/// How long the chunks of a stop may take, beside what it takes alone.
std::chrono::nanoseconds LiveStaging::planned_stall(const WayChoice& choice) const {
  if (choice.stop != StopKind::suspension) return GateShare::planned(max_stall_);
  const StallForecast::Suspending cost = parts_.suspending();
  return GateShare::planned(max_stall_, cost.off + cost.on);
}

/// For the copies under the stop, where nothing can be created. Routes may share a context, and so
/// the events that mark the ends of their copies. A hold needs a stream of such a context.
void LiveStaging::prepare_copies(const LiveBatch& batch) const {
  const LiveChunk& first = batch.front();
  if (batch.stop() == StopKind::hold) {
    parts_.engine.prepare(first.transaction.from(), first.range.task->to, 1, CopyUnder::hold);
  }
  if (batch.way() != Way::stopped) return;
  std::set<std::pair<Place, Place>> routes;
  for (const LiveChunk* const chunk : batch.chunks) {
    routes.emplace(chunk->transaction.from(), chunk->range.task->to);
  }
  const CopyUnder under = batch.copies_under();
  for (const auto& [from, to] : routes) parts_.engine.prepare(from, to, batch.chunks.size(), under);
}

void LiveStaging::stage_ahead(const LiveBatch& batch) {
  const LiveChunk& first = batch.front();
  if (!may_stage_ahead(first)) return;
  const int gates = may_stage_far_ahead(first) ? gates_ahead : 1;
  std::chrono::nanoseconds left = gates * planned_stall(first.choice);
  const TimePoint end = clock_.now() + ahead_limit;
  LiveChunk* last = batch.chunks.back();
  for (int staged = 0; staged < gates || left >= std::chrono::nanoseconds(0); ++staged) {
    LiveChunk* const next = ranges_.after(*last);
    if (next == nullptr || clock_.now() >= end) return;
    left -= stall_of_next(first, *next);
    if (!stage_beside(first, *next)) return;
    last = next;
  }
}

/// Otherwise the copies would wait for longer than they take, and gather changes. A suspension
/// waits for kernels of the runtime's own: on H200 1.7 ms for a copy of 96 MiB to the host.
bool LiveStaging::may_stage_ahead(const LiveChunk& first) const {
  const TimePoint now = clock_.now();
  return first.choice.stop != StopKind::suspension && first.copier != nullptr &&
         first.choice.overlap && parts_.budget.next_stop(now) <= now;
}

bool LiveStaging::may_stage_far_ahead(const LiveChunk& chunk) const {
  Allocation& allocation = chunk.range.allocation;
  return allocation.dirtiness <= dirty_ahead_max && allocation.hooks().empty();
}

/// Stages a chunk that may share a gate with `first`. False if it cannot be staged now, for
/// whatever reason: errors recur when it is the first of its batch.
bool LiveStaging::stage_beside(const LiveChunk& first, LiveChunk& next) {
  if (!same_streams(first, next.range)) return false;
  if (next.broken() || next.range.unwanted()) return false;  // If freed, it may be another's.
  if (next.staged) return next.choice.moves_as(first.choice);
  try {
    next.transaction.take_clean_target();
    const WayChoice choice = choose(next);
    if (!choice.moves_as(first.choice)) return false;
    next.choice = choice;
    const std::uint64_t size_bytes = next.transaction.size_bytes();
    if (is_live(choice.way) && !lease_copier(next, Effort::now).has_bay_for(size_bytes))
      return false;
    const bool copies = choice.way != Way::remapped;
    if (copies && !parts_.budget.try_book_copy(clock_.now(), size_bytes)) return false;
    begin(next, choice, Effort::now);
    return next.choice.moves_as(first.choice);  // It may have had to take another one.
  } catch (const std::exception& error) {
    log(LogLevel::debug, "could not copy a chunk in advance: {}", error.what());
    unstage(next);
    return false;
  }
}

/// A gate stops a stream only for memory that it may use; all others stop everything.
bool LiveStaging::same_streams(const LiveChunk& first, const LiveRange& other) const {
  const Address one = first.range.allocation.begin(), two = other.allocation.begin();
  return first.choice.stop != StopKind::gate || parts_.stops.attached().same_scope(one, two);
}

void LiveStaging::choose_again(LiveBatch& batch) {
  const WayChoice choice = choose(batch.front());
  const bool same = std::ranges::all_of(batch.chunks, [&](const LiveChunk* chunk) {
    return choice.moves_as(chunk->choice) && choose(*chunk).moves_as(choice);
  });
  if (same) return;
  unstage_all();  // Their copier may be given up.
  LiveChunk& first = batch.front();
  batch.chunks.resize(1);
  if (first.choice.way == Way::remapped) pace_copy(first);  // There was nothing to copy before.
  begin(first, choice, Effort::patient);
  prepare_copies(batch);
}

/// How long the chunk keeps a gate closed if it moves in the way of `first`: it settles while the
/// one before it is switched.
std::chrono::nanoseconds LiveStaging::stall_of_next(const LiveChunk& first,
                                                    const LiveChunk& next) const {
  using Fill = StallForecast::Fill;
  const Way way = first.choice.way;
  const Fill fill = way == Way::remapped  ? Fill::none
                    : way == Way::stopped ? Fill::copy
                                          : Fill::settle;
  const auto users =
      parts_.stops.users(next.range.allocation.begin(), first.choice.stop != StopKind::gate);
  return std::max(parts_.forecast.fill_time(fill, next.transaction.size_bytes()),
                  parts_.forecast.switch_time(next.transaction.planned_switch(users)));
}

/// Everything before the stop.
void LiveStaging::begin(LiveChunk& chunk, const WayChoice& choice, Effort effort) {
  Transaction& transaction = chunk.transaction;
  chunk.choice = choice;
  chunk.lacked_digests.reset();
  WayChooser::require(choice, transaction, chunk.range.task->options.mode);
  chunk.range.begun(chunk);
  chunk.range.notices.before(transaction.slot(), transaction.from(), chunk.range.task->to);
  if (transaction.state() == Transaction::State::planned) {
    const TimePoint start = clock_.now();
    take_target(chunk, effort);
    chunk.range.report.phases.cache += clock_.now() - start;
  }
  chunk.prepare_source(memory_.chunks());
  if (is_live(chunk.choice.way)) {
    try {
      begin_live(chunk, effort);
    } catch (const Error& error) {
      // Digests need memory at the source, and a chunk may be leaving just because that place is
      // full.
      const bool no_digests = error.kind() == ErrorKind::out_of_memory;
      const bool no_bay = error.kind() == ErrorKind::busy;
      const bool may_stop = chunk.range.task->options.mode == Mode::automatic;
      if (!may_stop || !(no_digests || no_bay)) throw;
      if (no_digests) chunk.lacked_digests = chunk.choice.way;
      chunk.choice = chunk.choice.stopped_instead(error.what());
    }
  }
  chunk.staged = true;
}

void LiveStaging::begin_live(LiveChunk& chunk, Effort effort) {
  LiveCopier& copier = lease_copier(chunk, effort);
  const std::optional<std::size_t> bay = copier.take_bay(chunk.transaction.size_bytes());
  if (!bay) {
    throw Error(ErrorKind::busy, live_move_call,
                fmt::format("too many live copies from {} are in progress",
                            to_string(chunk.transaction.from())));
  }
  chunk.read_only_since.reset();
  {
    // Excludes changes of rights: a grant in progress would take effect after the copy began.
    Allocation& allocation = chunk.range.allocation;
    const MutexLock operations(allocation.operations());
    if (allocation.read_only()) chunk.read_only_since = allocation.writable_epoch();
  }
  chunk.copier = &copier;
  chunk.bay = *bay;
  try {
    chunk.copy_waits = digester_of(chunk) != nullptr;
    if (!chunk.copy_waits) start_copy(chunk);
  } catch (...) {
    chunk.copier = nullptr;
    copier.leave_bay(*bay);
    throw;
  }
}

/// Those that have waited for the other chunks to be mapped. Errors of the others recur when they
/// are waited for.
void LiveStaging::start_copies(const LiveBatch& batch) {
  for (LiveChunk* const chunk : batch.chunks) {
    if (!chunk->copy_waits) continue;
    try {
      start_copy(*chunk);
    } catch (const std::exception& error) {
      if (chunk == &batch.front()) throw;
      return log(LogLevel::debug, "could not copy a chunk in advance: {}", error.what());
    }
  }
}

/// By a copy engine if the copy has waited, by a kernel otherwise.
void LiveStaging::start_copy(LiveChunk& chunk) {
  LiveCopier* const there = chunk.copy_waits ? digester_of(chunk) : nullptr;
  const Chunk &source = chunk.transaction.source(), &target = chunk.transaction.target();
  // Nothing is launched while another move's gate is closed.
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  if (there == nullptr || !start_by_engine(chunk, *there)) {
    chunk.copier->start_copy(chunk.bay, source, target, copy_share_percent_);
  }
  chunk.copy_waits = false;
  chunk.staged_at = clock_.now();
}

/// False: the target has no memory for it, and nothing runs. Requires: as
/// `LiveCopier::start_copy_by_engine`.
bool LiveStaging::start_by_engine(LiveChunk& chunk, LiveCopier& there) {
  try {
    const Chunk &source = chunk.transaction.source(), &target = chunk.transaction.target();
    chunk.copier->start_copy_by_engine(chunk.bay, source, target, copy_share_percent_, there);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory || chunk.transaction.target().busy()) throw;
    return false;
  }
}

/// The copier that digests the chunk at its target, if a copy engine brings it there: between GPUs,
/// and before a suspension, which waits for such copies of all moves. Null otherwise, or if it is
/// not there yet.
LiveCopier* LiveStaging::digester_of(const LiveChunk& chunk) {
  const Place from = chunk.transaction.from(), to = chunk.range.task->to;
  if (chunk.choice.stop != StopKind::suspension || to.kind != Place::Kind::gpu) return nullptr;
  const DeviceId target{to.ordinal};
  return memory_.topology().reaches(target, from) ? parts_.copiers.find_own(target) : nullptr;
}

/// The copier of the chunk's source, for this move alone until it has to wait for another. Throws:
/// Error{busy} if another move has it and this one may not wait.
LiveCopier& LiveStaging::lease_copier(const LiveChunk& chunk, Effort effort) {
  constexpr std::chrono::milliseconds look_period(1);
  const DeviceId device{chunk.transaction.from().ordinal};
  const bool own = chunk.choice.way == Way::live_beside;
  // With little effort only one that this move has: another may have to be created.
  LiveCopier* copier = leases_.try_take(device, own);
  if (copier == nullptr && effort != Effort::patient) {
    throw Error(ErrorKind::busy, live_move_call,
                fmt::format("another move copies live from {}", to_string(gpu(index(device)))));
  }
  if (copier != nullptr) return *copier;
  // The other move may be waiting for a copier of this one.
  unstage_all();
  leases_.give_up_all();
  while ((copier = leases_.try_take(device, own)) == nullptr) {
    conditions_.pause_until(clock_.now() + look_period);
  }
  return *copier;
}

void LiveStaging::await_copy(LiveChunk& chunk) {
  constexpr std::chrono::milliseconds look_period(5);
  if (chunk.copier == nullptr || chunk.transaction.state() != Transaction::State::ready) return;
  if (chunk.copy_waits) start_copy(chunk);
  while (!chunk.copier->copied_by(chunk.bay, clock_.now() + look_period)) {
    conditions_.require_going_on();
  }
  const std::chrono::nanoseconds took = clock_.now() - chunk.staged_at;
  chunk.range.report.phases.copy += took;
  copy_ns_per_byte_ =
      static_cast<double>(took.count()) / static_cast<double>(chunk.transaction.size_bytes());
  chunk.transaction.note_copied();
}

/// Waits with no lock held except the move claims and the copier: only frees of these allocations,
/// and moves off the same GPU, wait meanwhile. False: it did not end, and may go on writing.
bool LiveStaging::ends_in_time(const LiveChunk& chunk,
                               const std::function<bool(TimePoint)>& ended_by) const {
  constexpr std::chrono::milliseconds look_period(5);
  const TimePoint begun = clock_.now();
  while (!ended_by(clock_.now() + look_period)) {
    const auto limit = chunk.range.task->cancelled() ? patience_cancelled : patience;
    if (clock_.now() - begun >= limit) return false;
  }
  return true;
}

/// Waits for the work started for the chunk. If it does not end, its target is quarantined, and the
/// chunk is as if it had not been staged.
void LiveStaging::unstage(LiveChunk& chunk) noexcept {
  if (!chunk.staged) return;
  chunk.staged = chunk.copy_waits = false;
  if (chunk.copier == nullptr) return;
  LiveCopier& copier = *std::exchange(chunk.copier, nullptr);
  copier.leave_bay(chunk.bay);
  // A failed copy is not waited for again.
  if (!copier.busy(chunk.bay) || chunk.transaction.state() != Transaction::State::ready) return;
  try {
    const auto copied = [&](TimePoint time) { return copier.copied_by(chunk.bay, time); };
    if (ends_in_time(chunk, copied)) return;
    chunk.transaction.plan_again("a copy into it does not end");
  } catch (const std::exception& error) {
    log(LogLevel::warn, "an abandoned copy failed: {}", error.what());
    chunk.transaction.plan_again("a copy into it failed and may still be running");
  }
}

void LiveStaging::unstage(LiveRange& range) noexcept {
  for (LiveChunk& chunk : range.chunks) unstage(chunk);
}

/// Of the whole move: the lease of the copier may be given up then.
void LiveStaging::unstage_all() noexcept {
  for (LiveRange& range : ranges_.all()) {
    for (LiveChunk& chunk : range.chunks) {
      unstage(chunk);
      if (chunk.transaction.state() == Transaction::State::copied) chunk.transaction.discard_copy();
    }
  }
}

void LiveStaging::end_try(LiveChunk& chunk) noexcept {
  Transaction& transaction = chunk.transaction;
  if (chunk.broken()) return;  // Its work was waited for.
  try {
    const bool settles = std::exchange(chunk.settles, false);
    if (settles && chunk.copier->busy(chunk.bay) && !ends_in_time(chunk, [&](TimePoint time) {
          return chunk.copier->settled_by(chunk.bay, time);
        })) {
      transaction.abandon_target("settling does not end");
    }
    transaction.end_copy(clock_.now() + patience_copy);
    if (chunk.choice.way == Way::stopped && transaction.state() == Transaction::State::copied) {
      transaction.discard_copy();  // The application has run since.
    }
  } catch (const std::exception& error) {
    log(LogLevel::warn, "work of an abandoned stop failed: {}", error.what());
    if (transaction.state() == Transaction::State::copied) {
      transaction.abandon_target("settling failed and may still be running");
    }
  }
}

std::optional<std::uint64_t> LiveStaging::retire(LiveChunk& chunk) noexcept {
  std::optional<std::uint64_t> copied_twice;
  double& dirtiness = chunk.range.allocation.dirtiness;
  if (chunk.copier != nullptr) {
    const std::uint64_t dirty_bytes =
        chunk.settles ? chunk.copier->dirty_tiles(chunk.bay) * chunk.copier->tile_bytes() : 0;
    const double share =
        static_cast<double>(dirty_bytes) / static_cast<double>(chunk.transaction.size_bytes());
    dirtiness = (1 - dirt_weight) * dirtiness + dirt_weight * share;
    chunk.copier->leave_bay(chunk.bay);
    chunk.copier = nullptr;
    copied_twice = dirty_bytes;
  } else {
    dirtiness *= dirt_fading;
  }
  chunk.staged = false;
  ways_.note_moved();
  return copied_twice;
}

/// Before the next chunk takes that room: otherwise every chunk that leaves a full place to make
/// room for another would have to stop for its copy. A program that moves chunks itself may count
/// on their room, and so may a move that gives memory back.
void LiveStaging::keep_room_for_digests(const LiveChunk& chunk) noexcept {
  constexpr std::uint64_t share_min = 8;  // Most of the chunk's room stays free.
  const MigrationTerms& terms = chunk.range.task->terms;
  if (!chunk.lacked_digests) return;
  if (terms.gives_back || (terms.asks_for_room && !terms.by_policy)) return;
  if (chunk.transaction.size_bytes() < share_min * parts_.copiers.table_bytes()) return;
  try {
    parts_.copiers.get(DeviceId{chunk.transaction.from().ordinal},
                       chunk.lacked_digests == Way::live_beside);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "the next chunk will move stopped, too: {}", error.what());
  }
}

/// Waits so that the copy ends about when the next stop is allowed.
void LiveStaging::pace_copy(const LiveChunk& chunk) {
  const std::chrono::nanoseconds estimate(static_cast<std::int64_t>(
      copy_ns_per_byte_ * static_cast<double>(chunk.transaction.size_bytes())));
  const std::uint64_t size_bytes = chunk.transaction.size_bytes();
  conditions_.await([&](TimePoint now) {
    const TimePoint start = parts_.budget.next_copy(now, estimate);
    if (start > now || parts_.budget.try_book_copy(now, size_bytes)) return start;
    return parts_.budget.next_copy(now, estimate);  // Another copy was booked in between.
  });
}

}  // namespace vma
