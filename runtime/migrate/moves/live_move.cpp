#include "migrate/moves/live_move.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mapping_limit.hpp"
#include "base/nvtx.hpp"
#include "base/units.hpp"
#include "migrate/moves/chunk_stop.hpp"
#include "migrate/moves/migration_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>
#include <string>
#include <utility>

namespace vma {
namespace {

/// How many chunks settle in a context of our own after a thread has blocked the application's
/// context.
constexpr int beside_count = 8;
/// How much of the past a new chunk's dirtiness outweighs.
constexpr double dirt_weight = 0.5;
/// A chunk that went stopped for its dirtiness was not measured: after a while one is tried again.
constexpr double dirt_fading = 0.95;

}  // namespace

LiveMove::LiveMove(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
                   MigrationReport& report)
    : parts_(parts),
      task_(task),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      options_(task.options),
      want_(memory_.pressure()),
      report_(report),
      notices_(allocation, parts.callbacks),
      gate_limit_(parts.limits.gate_limit) {}

LiveMove::~LiveMove() {
  for (LiveChunk& chunk : chunks_) unstage(chunk);
  give_up_lease();
}

void LiveMove::run() {
  const TimePoint start = clock_.now();
  try {
    naming_mapping_limit(live_move_call, [this] {
      plan();
      move_all();
    });
  } catch (const Error& error) {
    report_.wall = clock_.now() - start;
    finish_report();
    throw migration_error(error, report_, allocation_);
  } catch (...) {
    report_.wall = clock_.now() - start;
    finish_report();
    throw;
  }
  report_.wall = clock_.now() - start;
  finish_report();
  log_phases();
}

/// Helps to explain why moves take as long as they do.
void LiveMove::log_phases() const {
  const auto us = [](std::chrono::nanoseconds time) { return in_seconds(time) * 1e6; };
  const Phases& phases = report_.phases;
  log(LogLevel::debug,
      "{}: {} chunks, {} of them live, {} retries; us: cache {:.0f}, wait {:.0f}, copy {:.0f}, "
      "settle {:.0f}, unmap {:.0f}, map {:.0f}, grant {:.0f}, retire {:.0f}; longest stall {:.0f}",
      report_.route, report_.chunks_moved, report_.chunks_live, report_.retries, us(phases.cache),
      us(phases.wait), us(phases.copy), us(phases.settle), us(phases.unmap), us(phases.map),
      us(phases.grant), us(phases.retire), us(report_.stall.max));
  for (const auto& [reason, count] : report_.reasons)
    log(LogLevel::debug, "{}: {} times {}", report_.route, count, reason);
}

void LiveMove::plan() {
  report_.failures.reserve(1);  // The first chunk that fails ends it.
  if (task_.terms.choice == PlaceChoice::runtime) {
    parts_.reach.require(allocation_, task_.range, task_.to, live_move_call);
  }
  std::set<Location> sources;
  for (std::size_t slot = task_.range.first; slot < task_.range.end; ++slot) {
    const Location from = allocation_.home(slot);
    if (from == task_.to) continue;
    chunks_.emplace_back(memory_, parts_.engine, allocation_, slot, task_.to);
    sources.insert(from);
  }
  for (const Location from : sources) {
    report_.route += fmt::format("{}{}->{}", report_.route.empty() ? "" : ", ", to_string(from),
                                 to_string(task_.to));
  }
}

void LiveMove::move_all() {
  require_movable(chunk_deadline());
  if (options_.reserve_first) reserve_all();
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    LiveChunk& chunk = chunks_[i];
    const NvtxRange range([&] {
      return fmt::format("vmart move {:#x} to {}",
                         to_integer(allocation_.slot_begin(chunk.transaction.slot())),
                         to_string(task_.to));
    });
    try {
      require_going_on();
      if (!chunk.staged) {
        chunk.transaction.take_clean_target();
        if (!chunk.transaction.target_clean()) pace_copy(chunk);
        stage(chunk, choose(chunk), true);
      }
    } catch (const std::exception& error) {
      note_failure(chunk, error);
      throw;
    }
    if (i + 1 < chunks_.size()) stage_ahead(chunk, chunks_[i + 1]);
    try {
      complete(chunk);
    } catch (const std::exception& error) {
      note_failure(chunk, error);
      throw;
    }
    retired(chunk);
    task_.tell(report_);
  }
}

/// Copies the next chunk beside the stop for this one, if possible. Errors are ignored here: they
/// recur when it is the next chunk's turn.
void LiveMove::stage_ahead(const LiveChunk& chunk, LiveChunk& next) {
  // With a budget the copy would wait for longer than it takes, and gather changes.
  if (parts_.pace.limited() || next.staged || chunk.copier == nullptr || !chunk.choice.overlap)
    return;
  if (chunk.transaction.from() != next.transaction.from()) return;
  try {
    next.transaction.take_clean_target();
    const WayChoice choice = choose(next);
    if (choice.way != chunk.choice.way) return;  // Another copier needs another lease.
    stage(next, choice, false);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "could not copy a chunk in advance: {}", error.what());
    unstage(next);
  }
}

void LiveMove::reserve_all() {
  const TimePoint start = clock_.now();
  for (LiveChunk& chunk : chunks_) take_target(chunk, true);
  report_.phases.cache += clock_.now() - start;
}

/// `may_ask`: nothing of this move is in progress, so that it can wait for room.
void LiveMove::take_target(LiveChunk& chunk, bool may_ask) {
  Transaction& transaction = chunk.transaction;
  if (transaction.take_clean_target() || transaction.take_cached_target()) return;
  const auto ask = [&](Location at, std::uint64_t size_bytes) {
    if (!may_ask || !task_.terms.asks_for_room || at.kind != Location::Kind::gpu) return false;
    give_up_lease();  // Another move may need the copier to make the room.
    const bool again = parts_.room.ask(want_, at, size_bytes);
    require_going_on();
    return again;
  };
  memory_.with_room(ask, task_.to, transaction.size_bytes(),
                    [&] { transaction.take_target(ChunkStore::Turn::take); });
}

WayChoice LiveMove::choose(const LiveChunk& chunk) const {
  const WayChoice choice = choose_among(chunk);
  if (choice.way != Way::none) return choice;
  // Blocking streams need no stops of their own, once their kind is known.
  parts_.stops.attached().learn_kinds(allocation_.begin());
  return choose_among(chunk);
}

WayChoice LiveMove::choose_among(const LiveChunk& chunk) const {
  const AttachedStreams::Use streams(parts_.stops.attached(), allocation_.begin());
  const GatePlan plan = plan_gate(streams.streams());
  WayFacts facts;
  facts.from = chunk.transaction.from();
  facts.to = task_.to;
  facts.mode = options_.mode;
  facts.target_clean = chunk.transaction.target_clean();
  facts.dirty = allocation_.dirtiness;
  facts.application_waits = chunks_beside_ > 0;
  if (facts.from.kind == Location::Kind::gpu) {
    facts.application = parts_.copiers.application_context(DeviceId{facts.from.ordinal});
  }
  return choose_way(facts, plan, memory_.topology(), [&](ContextHandle context) {
    return memory_.topology().info(memory_.driver().context_device(context)).max_queues;
  });
}

/// Everything before the stop. Nothing is stopped here, so that hooks may be called.
void LiveMove::stage(LiveChunk& chunk, const WayChoice& choice, bool may_ask) {
  Transaction& transaction = chunk.transaction;
  chunk.choice = choice;
  chunk.lacked_digests.reset();
  if (choice.way == Way::none) {
    throw Error(ErrorKind::unsupported, live_move_call,
                fmt::format("{}; raise CUDA_DEVICE_MAX_CONNECTIONS, attach fewer streams, or ask "
                            "for StopScope::hold",
                            choice.reason));
  }
  if (options_.mode == Mode::live && chunk.choice.way == Way::stopped) {
    throw Error(
        ErrorKind::unsupported, live_move_call,
        fmt::format(
            "the chunk at offset {} cannot move live from {} to {} ({}); use Mode::automatic or "
            "Mode::stopped, which stop the attached streams for its copy",
            chunk.transaction.slot() * allocation_.geometry().chunk_bytes,
            to_string(transaction.from()), to_string(task_.to), chunk.choice.reason));
  }
  tell_begun(chunk);
  notices_.before(transaction.slot(), transaction.from(), task_.to);
  if (transaction.state() == Transaction::State::planned) {
    const TimePoint start = clock_.now();
    take_target(chunk, may_ask);
    report_.phases.cache += clock_.now() - start;
  }
  if (chunk.choice.way == Way::live || chunk.choice.way == Way::live_beside) {
    try {
      stage_live(chunk);
    } catch (const Error& error) {
      // Digests need memory at the source, and a chunk may be leaving just because that place is
      // full.
      const bool no_digests = error.kind() == ErrorKind::out_of_memory;
      const bool no_bay = error.kind() == ErrorKind::busy;
      if (options_.mode != Mode::automatic || !(no_digests || no_bay)) throw;
      if (no_digests) chunk.lacked_digests = chunk.choice.way;
      chunk.choice = {Way::stopped, std::string("stopped: ") + error.what(), true};
    }
  }
  if (chunk.choice.way == Way::stopped) parts_.engine.prepare(transaction.from(), task_.to);
  chunk.staged = true;
  chunk.staged_at = clock_.now();
}

/// Throws: Error{busy} while work that a move has given up is in progress: what is started now
/// would wait behind it.
std::size_t LiveMove::free_bay(LiveCopier& copier, Location from) {
  for (std::size_t bay = 0; bay < LiveCopier::bays; ++bay) {
    if (bays_taken_[bay] || !copier.under_way(bay)) continue;
    throw Error(ErrorKind::busy, live_move_call,
                fmt::format("an abandoned live copy from {} is still running; wait for the kernels "
                            "that delay it, or move with Mode::stopped",
                            to_string(from)));
  }
  const auto found = std::ranges::find(bays_taken_, false);
  VMART_CHECK(found != bays_taken_.end(), "the number of staged chunks is limited");
  return static_cast<std::size_t>(found - bays_taken_.begin());
}

void LiveMove::stage_live(LiveChunk& chunk) {
  LiveCopier& copier = lease_copier(chunk);
  const std::size_t bay = free_bay(copier, chunk.transaction.from());
  chunk.read_only_since.reset();
  {
    // Excludes changes of rights: a grant in progress would take effect after the copy began.
    const MutexLock operations(allocation_.operations());
    if (allocation_.read_only()) chunk.read_only_since = allocation_.writable_epoch();
  }
  {
    // Nothing is launched while another move's gate is closed.
    const MutexLock slow_work(memory_.chunks().slow_calls().turn());
    copier.start_copy(bay, chunk.transaction.source(), chunk.transaction.target());
  }
  bays_taken_[bay] = true;
  chunk.copier = &copier;
  chunk.bay = bay;
}

/// The copier of the chunk's source, for this migration alone until it needs another.
LiveCopier& LiveMove::lease_copier(const LiveChunk& chunk) {
  LiveCopier& copier = parts_.copiers.get(DeviceId{chunk.transaction.from().ordinal}, task_.to,
                                          chunk.choice.way == Way::live_beside);
  if (leased_ == &copier) return copier;
  constexpr std::chrono::milliseconds look_period(1);
  give_up_lease();
  while (!copier.turn.try_lock()) {  // Another migration off this GPU may take long.
    task_.pause_until(clock_.now() + look_period);
    require_going_on();
  }
  leased_ = &copier;
  return copier;
}

void LiveMove::give_up_lease() noexcept {
  if (leased_ != nullptr) std::exchange(leased_, nullptr)->turn.unlock();
}

void LiveMove::await_copy(LiveChunk& chunk) {
  constexpr std::chrono::milliseconds look_period(5);
  if (chunk.copier == nullptr || chunk.transaction.state() != Transaction::State::ready) return;
  while (!chunk.copier->copied_by(chunk.bay, clock_.now() + look_period)) require_going_on();
  const std::chrono::nanoseconds took = clock_.now() - chunk.staged_at;
  report_.phases.copy += took;
  copy_ns_per_byte_ =
      static_cast<double>(took.count()) / static_cast<double>(chunk.transaction.size_bytes());
  chunk.transaction.note_copied();
}

/// Stops for the chunk until it is switched, or until the tries or the time are used up.
void LiveMove::complete(LiveChunk& chunk) {
  chunk.first_try = clock_.now();
  chunk.deadline = chunk_deadline();
  while (true) {
    if (chunk.tries + chunk.waits > 0 || chunk.went_stale()) choose_again(chunk);
    await_copy(chunk);
    require_movable(chunk.deadline);
    notices_.before(chunk.transaction.slot(), chunk.transaction.from(), task_.to);
    chunk.deadline += pace_stop();
    require_going_on();
    std::optional<Gate::Refusal> refusal;
    std::exception_ptr failure;
    bool stood = false;
    {
      const MutexLock operations(allocation_.operations());
      if (!allocation_.may_move() || !notices_.all_told(chunk.transaction.slot()) ||
          chunk.went_stale()) {
        continue;  // Pinned since, or a hook was added, or writing is allowed: none is a try.
      }
      if (chunk.choice.way == Way::remapped &&
          chunk.transaction.state() == Transaction::State::ready) {
        chunk.transaction.note_clean();  // Stays so until `operations` are released.
      }
      require_streams();
      const bool any = parts_.stops.attached().any(allocation_.begin());
      require_going_on();  // A free sets `being_freed` before it forgets streams.
      const bool unchanged = chunk.read_only_since == allocation_.writable_epoch();
      const bool settle = chunk.copier != nullptr && !(unchanged && allocation_.read_only());
      chunk.settled = settle;
      if (!any) {
        // Their last work may still run, and there is no stream left to query.
        throw Error(
            ErrorKind::invalid_argument, live_move_call,
            "every attached stream that may use the allocation was detached during the move");
      }
      VMART_CHECK(chunk.copier == nullptr || chunk.copier == leased_,
                  "the copier belongs to this move");
      chunk.gate_limit = gate_limit_;
      report_.gate_limit = std::max(report_.gate_limit, gate_limit_);
      ChunkStop stop(parts_, task_, chunk, settle);
      try {
        refusal = stop.run(report_.phases);
      } catch (...) {
        failure = std::current_exception();
      }
      note_stop(chunk, stop);
      // A call of ours blocked in the application's context before all streams were stopped; or the
      // streams themselves waited for the settling work there, more than their backlogs explain.
      const bool waited = (refusal && refusal->why == StopRefusal::opened_by_watchdog) ||
                          (chunk.overdue && stop.overdue());
      if (waited && !stop.all_stood() && chunk.choice.way == Way::live)
        chunks_beside_ = beside_count;
      if (stop.tried()) chunk.overdue = stop.overdue();
      stood = stop.times().first_arrival > TimePoint(0);
    }
    if (!refusal && !failure) return;
    stand_down(chunk);
    if (failure) std::rethrow_exception(failure);
    give_up_or_back_off(chunk, *refusal, stood);
  }
}

/// What it cost the program, whatever the outcome.
void LiveMove::note_stop(LiveChunk& chunk, const ChunkStop& stop) {
  const GateTimes& times = stop.times();
  if (stop.all_stood()) {
    stats_.add_skew(times.skew());
    stats_.add_stall(times.stall());
    tell_stood(chunk, times, stop.streams());
  }
  if (times.first_arrival == TimePoint(0)) return;
  parts_.pace.spent_stall(times.first_arrival, times.opened - times.first_arrival);
}

/// Streams may have been attached or detached since the way was chosen, so it may no longer work.
void LiveMove::choose_again(LiveChunk& chunk) {
  const WayChoice choice = choose(chunk);
  if (choice.way == chunk.choice.way) return;
  for (LiveChunk& other : chunks_) unstage(other);  // The next one's copier may be given up.
  if (chunk.transaction.state() == Transaction::State::copied) chunk.transaction.discard_copy();
  if (chunk.choice.way == Way::remapped) pace_copy(chunk);  // There was nothing to copy before.
  stage(chunk, choice, false);
}

/// The chunk has moved.
void LiveMove::retired(LiveChunk& chunk) noexcept {
  const TimePoint start = clock_.now();
  ++report_.chunks_moved;
  report_.bytes_moved += chunk.transaction.size_bytes();
  if (!chunk.choice.reason.empty()) count_reason(chunk.choice.reason);
  report_.dark_max = std::max(report_.dark_max, chunk.transaction.dark());
  if (chunk.copier != nullptr) {
    ++report_.chunks_live;
    const std::uint64_t dirty_bytes =
        chunk.settled ? chunk.copier->dirty_tiles(chunk.bay) * chunk.copier->tile_bytes() : 0;
    report_.bytes_copied_twice += dirty_bytes;
    const double share =
        static_cast<double>(dirty_bytes) / static_cast<double>(chunk.transaction.size_bytes());
    allocation_.dirtiness = (1 - dirt_weight) * allocation_.dirtiness + dirt_weight * share;
    chunk.copier = nullptr;
    bays_taken_[chunk.bay] = false;
  } else {
    allocation_.dirtiness = allocation_.dirtiness * dirt_fading;
  }
  chunk.staged = false;
  if (chunks_beside_ > 0) --chunks_beside_;
  if (chunk.transaction.remapped()) report_.bytes_remapped += chunk.transaction.size_bytes();
  report_.copies_kept += chunk.transaction.give_source_up(options_, task_.terms) ? 1 : 0;
  notices_.after(chunk.transaction.slot(), true);
  tell_ended(chunk, true);
  if (chunk.lacked_digests) make_digests(chunk);
  report_.phases.retire += clock_.now() - start;
}

/// Allocates digests from the room that the chunk has left, before the next one takes it: otherwise
/// every chunk that leaves a full place to make room for another would have to stop for its copy. A
/// program that moves chunks itself may count on their room, and so may a move that gives memory
/// back.
void LiveMove::make_digests(const LiveChunk& chunk) noexcept {
  constexpr std::uint64_t share_min = 8;  // Most of the chunk's room stays free.
  const MoveTerms& terms = task_.terms;
  if (terms.gives_back || (terms.asks_for_room && !terms.by_policy)) return;
  if (chunk.transaction.size_bytes() < share_min * parts_.copiers.table_bytes()) return;
  try {
    parts_.copiers.get(DeviceId{chunk.transaction.from().ordinal}, task_.to,
                       chunk.lacked_digests == Way::live_beside);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "the next chunk will move stopped, too: {}", error.what());
  }
}

/// A destroyed stream's last work may still run, and the stream can no longer be queried.
void LiveMove::require_streams() {
  const auto lost = parts_.stops.attached().drop_lost(allocation_.begin());
  if (lost.empty()) return;
  try {
    memory_.contexts().drain();
  } catch (const std::exception& error) {
    log(LogLevel::warn, "cannot wait for the work of a destroyed stream: {}", error.what());
  }
  throw Error(ErrorKind::invalid_argument, live_move_call,
              fmt::format("{} attached stream(s) were destroyed before they were detached; they "
                          "are detached now",
                          lost.size()));
}

void LiveMove::note_failure(const LiveChunk& chunk, const std::exception& error) noexcept {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && known->kind() == ErrorKind::cancelled) return;
  const Transaction& transaction = chunk.transaction;
  // There is room for one.
  report_.failures.push_back({transaction.slot() * allocation_.geometry().chunk_bytes,
                              {},
                              transaction.state() == Transaction::State::poisoned});
  try {
    report_.failures.back().reason = error.what();
  } catch (const std::bad_alloc&) {  // Recorded without it.
  }
}

void LiveMove::finish_report() noexcept {
  report_.skew = stats_.skew();
  report_.stall = stats_.stall();
  parts_.stops.stats().merge(stats_);
  for (LiveChunk& chunk : chunks_) tell_ended(chunk, false);
  const bool all = static_cast<std::size_t>(report_.chunks_moved) == chunks_.size();
  if (all) {
    report_.outcome = Outcome::done;
  } else if (report_.failures.empty()) {
    report_.outcome = Outcome::cancelled;
  } else {
    report_.outcome = report_.chunks_moved == 0 ? Outcome::failed : Outcome::partly;
  }
}

}  // namespace vma
