#include "migrate/moves/held_move.hpp"

#include "base/log.hpp"
#include "base/mapping_limit.hpp"
#include "base/nvtx.hpp"
#include "migrate/migration/migration_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>

namespace vma {
namespace {
constexpr std::size_t copies_in_flight_max = 1024;
}  // namespace

HeldMove::HeldMove(const MoveParts& parts, Allocation& allocation, SlotRange range, Location to,
                   const MigrateOptions& options, const MoveTerms& terms, MigrationReport& report,
                   const MigrationTask* task)
    : parts_(parts),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      range_(range),
      to_(to),
      options_(options),
      terms_(terms),
      task_(task),
      report_(report),
      ahead_(parts, transactions_, to) {}

void HeldMove::run() {
  const TimePoint start = clock_.now();
  try {
    naming_mapping_limit("vma::migrate", [this] { move_all(); });
  } catch (const Error& error) {
    conclude(start);
    if (transactions_.empty()) report_.outcome = Outcome::failed;  // Refused before it was planned.
    throw migration_error(error, report_, allocation_);
  } catch (...) {
    conclude(start);
    if (transactions_.empty()) report_.outcome = Outcome::failed;
    throw;
  }
  conclude(start);
}

void HeldMove::move_all() {
  plan();
  if (transactions_.empty()) return;
  prepare();
  if (options_.nothing_runs) {
    move_unheld();
  } else {
    move_held();
  }
}

void HeldMove::conclude(TimePoint start) noexcept {
  end_copies();
  summarise();
  give_sources_up();
  tell_ended();
  report_.wall = clock_.now() - start;
}

void HeldMove::give_sources_up() noexcept {
  const TimePoint start = clock_.now();
  for (Transaction& transaction : transactions_) {
    if (transaction.state() != Transaction::State::switched) continue;
    report_.copies_kept += transaction.give_source_up(options_, terms_) ? 1 : 0;
  }
  report_.phases.retire = clock_.now() - start;
}

void HeldMove::plan() {
  report_ = {};
  report_.offset = range_.first * allocation_.geometry().chunk_bytes;
  for (std::size_t slot = range_.first; slot < range_.end; ++slot) {
    report_.bytes_asked += allocation_.geometry().slot_bytes(slot);
    ++report_.chunks;
  }
  report_.failures.reserve(2);  // For a failed chunk, and for one whose copy failed ahead of it.
  if (terms_.choice == PlaceChoice::runtime) {
    parts_.reach.require(allocation_, range_, to_, "vma::migrate");
  }
  parts_.reach.require_atomics(allocation_, range_, to_, "vma::migrate");
  std::set<Location> sources;
  for (std::size_t slot = range_.first; slot < range_.end; ++slot) {
    if (allocation_.home(slot) == to_) continue;
    transactions_.emplace_back(memory_, parts_.engine, allocation_, slot, to_);
    sources.insert(transactions_.back().from());
  }
  for (const Location from : sources) {
    report_.route +=
        fmt::format("{}{}->{}", report_.route.empty() ? "" : ", ", to_string(from), to_string(to_));
  }
}

/// All that is slow or may need memory, before anything is stopped.
void HeldMove::prepare() {
  const TimePoint start = clock_.now();
  if (options_.nothing_runs) {
    for (const Transaction& transaction : transactions_) {
      parts_.engine.prepare(transaction.from(), to_, 1, CopyUnder::nothing);
    }
  } else {
    ahead_.choose();
    ahead_.prepare();
  }
  const auto planned = [](const Transaction& transaction) {
    return transaction.state() == Transaction::State::planned;
  };
  for (Transaction& transaction : transactions_) transaction.take_clean_target();
  for (Transaction& transaction : transactions_) {
    if (planned(transaction) && !transaction.take_cached_target()) break;
  }
  if (std::ranges::any_of(transactions_, planned)) take_targets();
  report_.phases.cache += clock_.now() - start;
}

/// Those that the cache does not have.
void HeldMove::take_targets() {
  MemoryPressure::Want want(memory_.pressure());
  require_room(want);
  bool first = true;
  for (Transaction& transaction : transactions_) {
    if (transaction.state() != Transaction::State::planned) continue;
    if (first || options_.reserve_first || to_.kind == Location::Kind::host) {
      parts_.room.with_room(want, terms_, to_, transaction.size_bytes(),
                            [&] { transaction.take_target(ChunkStore::Turn::take); });
      first = false;
      continue;
    }
    // The others are allocated beside the copies; the first shows whether the target is full. Host
    // memory takes ten times as long to allocate as to copy; no work should stay stopped for that.
    if (!ahead_.used()) return;
    try {
      transaction.take_target(ChunkStore::Turn::take);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      return ahead_.note_no_target(std::current_exception());
    }
  }
}

/// Refuses what cannot fit by the ledger, before anything is stopped.
void HeldMove::require_room(MemoryPressure::Want& want) {
  std::uint64_t need_bytes = 0;
  for (const Transaction& transaction : transactions_) {
    if (transaction.state() == Transaction::State::planned) need_bytes += transaction.size_bytes();
  }
  parts_.room.with_room(want, terms_, to_, need_bytes,
                        [&] { memory_.chunks().require_room(to_, need_bytes, "vma::migrate"); });
}

void HeldMove::move_held() {
  const BoundStream stream =
      parts_.engine.spare_stream(transactions_.front().from(), to_, ahead_.under());
  parts_.stops.hold_while(
      stream, parts_.limits.of_hold(options_), report_, held_,
      [this](Hold& hold) { pipeline(&hold); }, ahead_.used() ? &ahead_ : nullptr);
}

void HeldMove::move_unheld() {
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  const Measuring measuring(clock_);
  pipeline(nullptr);
}

void HeldMove::start(Transaction& transaction) {
  if (ahead_.used()) return ahead_.require_started(transaction);
  if (transaction.state() == Transaction::State::planned) {
    const TimePoint begin = clock_.now();
    transaction.take_target(ChunkStore::Turn::held);
    report_.phases.cache += clock_.now() - begin;
  }
  if (transaction.target_clean()) return transaction.note_clean();  // Under `operations()`.
  transaction.start_copy(options_.nothing_runs ? CopyUnder::nothing : CopyUnder::hold);
}

void HeldMove::finish(Transaction& transaction, Hold* hold) {
  const NvtxRange range([&] {
    return fmt::format("vmart move {:#x} to {}",
                       to_integer(allocation_.slot_begin(transaction.slot())), to_string(to_));
  });
  if (hold == nullptr) {
    await_copy(transaction, nullptr);
    if (transaction.state() == Transaction::State::copying) transaction.finish_copy();
    report_.phases.copy = clock_.now() - begun_;
    return transaction.switch_slot(report_.phases);
  }
  await_copy(transaction, hold);
  if (transaction.state() == Transaction::State::copying) transaction.finish_copy();
  report_.phases.copy = clock_.now() - begun_;
  hold->begin_dark();
  try {
    transaction.switch_slot(report_.phases);
  } catch (...) {
    hold->end_dark();
    throw;
  }
  hold->end_dark();
  hold->alive();
  let_through_ = clock_.now();
}

/// Waits for the copy, and meanwhile probes regularly that the driver lets grants return, so that
/// the last probe is recent when the slot goes dark. A copy that takes longer than a driver call
/// may is given up: held work continues, and the chunk stays where it is.
void HeldMove::await_copy(Transaction& transaction, Hold* hold) {
  constexpr std::chrono::milliseconds ask_period(1);
  const std::chrono::nanoseconds limit = parts_.limits.of_hold(options_).patience;
  const TimePoint deadline = clock_.now() + limit;
  while (true) {
    if (hold != nullptr && clock_.now() - let_through_ >= ask_period) {
      memory_.chunks().keepers().probe_grant();
      hold->alive();
      let_through_ = clock_.now();
    }
    const TimePoint look = (hold != nullptr ? let_through_ : clock_.now()) + ask_period;
    if (transaction.copy_done_by(std::min(look, deadline))) return;
    if (clock_.now() < deadline) continue;
    if (ahead_.used()) parts_.engine.distrust_ahead();
    throw Error(
        ErrorKind::busy, "vma::migrate",
        fmt::format(
            "the copy of the chunk at offset {} did not end within {} ms. The chunk stays where it "
            "is, and the held work continues. Set a longer MigrateOptions::deadline",
            transaction.slot() * allocation_.geometry().chunk_bytes,
            limit / std::chrono::milliseconds(1)));
  }
}

/// Ends all copies that a failure left in progress.
void HeldMove::end_copies() noexcept {
  constexpr std::chrono::seconds patience(2);
  const TimePoint deadline = clock_.now() + patience;
  for (Transaction& transaction : transactions_) transaction.end_copy(deadline);
}

/// All copies are started before the first switch: new targets are allocated beside the copies,
/// while an unmap would wait for the running copy (driver 580). Then each chunk is switched once it
/// is copied, beside the copies behind it. The first chunk that fails ends it; chunks copied by
/// then are still switched.
void HeldMove::pipeline(Hold* hold) {
  begun_ = clock_.now();
  pipelined_ = true;
  tell_begun();
  let_through_ = begun_ - std::chrono::hours(1);  // Not yet.
  std::size_t count = transactions_.size();
  std::size_t started = 0;
  std::exception_ptr failure;
  const auto attempt = [&](Transaction& transaction, auto&& step) {
    try {
      step();
      return true;
    } catch (const std::exception& error) {
      note_failure(transaction, error);
      if (!failure) failure = std::current_exception();
      return false;
    }
  };
  for (std::size_t next = 0; next < count && !ended(); ++next) {
    Transaction& transaction = transactions_[next];
    const bool moved = attempt(transaction, [&] {
      while (started < std::min(count, next + copies_in_flight_max)) {
        Transaction& ahead = transactions_[started];
        if (!attempt(ahead, [&] { start(ahead); })) count = started;
        if (hold != nullptr) hold->alive();
        ++started;
      }
      if (next < count) finish(transaction, hold);
    });
    if (!moved) break;
  }
  if (failure) std::rethrow_exception(failure);
}

bool HeldMove::ended() const {
  return allocation_.being_freed || (task_ != nullptr && task_->cancelled());
}

void HeldMove::note_failure(const Transaction& transaction, const std::exception& error) noexcept {
  const std::size_t offset = transaction.slot() * allocation_.geometry().chunk_bytes;
  const bool poisoned = transaction.state() == Transaction::State::poisoned;
  try {
    report_.failures.push_back({offset, {}, poisoned});
    report_.failures.back().reason = error.what();
  } catch (const std::bad_alloc&) {  // Recorded without its reason; there is room for two.
  }
}

void HeldMove::summarise() noexcept {
  report_.bytes_moved = 0;
  report_.bytes_remapped = 0;
  report_.chunks_moved = 0;
  for (const Transaction& transaction : transactions_) {
    report_.dark_max = std::max(report_.dark_max, transaction.dark());
    if (transaction.state() != Transaction::State::switched) continue;
    report_.bytes_moved += transaction.size_bytes();
    if (transaction.remapped()) report_.bytes_remapped += transaction.size_bytes();
    ++report_.chunks_moved;
  }
  const std::size_t moved = static_cast<std::size_t>(report_.chunks_moved);
  if (moved == transactions_.size()) {
    report_.outcome = Outcome::done;
  } else if (report_.failures.empty() && ended()) {
    report_.outcome = Outcome::cancelled;
  } else {
    report_.outcome = moved == 0 ? Outcome::failed : Outcome::partly;
  }
}

/// For watchers, all chunks of a move that stops the work once begin and end together.
void HeldMove::tell_begun() noexcept {
  for (const Transaction& transaction : transactions_) {
    parts_.observers.tell(step_of(transaction, ChunkStep::Kind::begun));
  }
}

void HeldMove::tell_ended() noexcept {
  if (!pipelined_) return;
  if (held_.opened > held_.stopped) {
    ChunkStep stood = step_of(transactions_.front(), ChunkStep::Kind::stood);
    stood.begin = held_.stopped;
    stood.end = held_.opened;
    parts_.observers.tell(stood);
  }
  for (const Transaction& transaction : transactions_) {
    const bool moved = transaction.state() == Transaction::State::switched;
    ChunkStep step = step_of(transaction, moved ? ChunkStep::Kind::moved : ChunkStep::Kind::stayed);
    try {
      if (!moved) step.why = report_.failures.empty() ? "cancelled" : report_.failures[0].reason;
    } catch (const std::bad_alloc&) {  // Reported without its reason.
    }
    parts_.observers.tell(step);
  }
}

ChunkStep HeldMove::step_of(const Transaction& transaction, ChunkStep::Kind kind) const {
  ChunkStep step;
  step.kind = kind;
  step.begin = begun_;
  step.end = clock_.now();
  step.address = allocation_.slot_begin(transaction.slot());
  step.bytes = transaction.size_bytes();
  step.from = transaction.from();
  step.to = to_;
  step.stall = held_.opened - held_.stopped;
  step.switched = transaction.switched_at();
  step.operation = terms_.operation;
  step.by_policy = terms_.by_policy;
  return step;
}

}  // namespace vma
