#include "migrate/moves/held_migration.hpp"

#include "base/log.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/move_account.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace vma {
namespace {

bool is_planned(const Transaction& transaction) noexcept {
  return transaction.state() == Transaction::State::planned;
}

bool is_switched(const Transaction& transaction) noexcept {
  return transaction.state() == Transaction::State::switched;
}

}  // namespace

HeldMigration::HeldMigration(MigrationParts& parts, std::span<HeldRange* const> ranges,
                             const MigrateOptions& options, const MigrationTerms& terms)
    : parts_(parts),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      ranges_(ranges),
      options_(options),
      terms_(terms),
      ahead_(parts, ranges, order_),
      pipeline_(parts, order_, ahead_, options) {}

void HeldMigration::run() noexcept {
  const TimePoint start = clock_.now();
  try {
    move_all();
  } catch (...) {
    fail_all(std::current_exception());
  }
  conclude(start);
}

void HeldMigration::choose_stop() {
  const bool by_program = terms_.choice == PlaceChoice::program && parts_.importers() != nullptr;
  if (ranges_.size() != 1 || !by_program) return;
  const HeldRange& first = *ranges_.front();
  const bool beside =
      first.task != nullptr && !options_.nothing_runs && options_.scope != StopScope::hold;
  leads_ = beside || !first.allocation.importers().empty();
  gated_ = beside && parts_.stops.attached().any(first.allocation.begin());
}

/// Otherwise a gate or a hold stops the work; a hold where moves need no attached streams, and none
/// is.
void HeldMigration::choose_suspension() {
  if (options_.nothing_runs || !parts_.stops.suspends()) return;
  suspended_ = may_suspend();
  gated_ = gated_ && !suspended_;
}

/// Needs a context of the runtime's own on each route; false where there is no room for it.
bool HeldMigration::may_suspend() {
  try {
    std::set<std::pair<Place, Place>> routes;
    std::size_t copies = 0;  // Routes may share a context, and so the events of their copies.
    for (const HeldRange* const range : ranges_) {
      copies += range->transactions.size();
      for (const Transaction& transaction : range->transactions) {
        routes.emplace(transaction.from(), range->to);
      }
    }
    for (const auto& [from, to] : routes) {
      if (!parts_.stops.may_suspend(from, to)) return false;
      parts_.engine.prepare(from, to, std::min(copies, HeldPipeline::copies_in_flight_max),
                            CopyUnder::hold);
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    log(LogLevel::info, "work is held, and not suspended: {}", error.what());
    return false;
  }
}

CopyUnder HeldMigration::under() const noexcept {
  if (options_.nothing_runs) return CopyUnder::nothing;
  return gated_ ? CopyUnder::gate : CopyUnder::hold;
}

void HeldMigration::move_all() {
  choose_stop();
  for (HeldRange* const range : ranges_) attempt(*range, [&] { plan(*range); });
  choose_suspension();
  if (!options_.nothing_runs && !gated_ && !suspended_) ahead_.choose();
  MemoryPressure::Want want(memory_.pressure(), terms_.asks());
  for (HeldRange* const range : ranges_) attempt(*range, [&] { prepare(*range, want); });
  for (HeldRange* const range : ranges_) attempt(*range, [&] { prepare_importers(*range); });
  put_in_order();
  if (order_.empty()) return;
  options_.nothing_runs ? move_unheld() : move_stopped();
}

/// For the steps before anything is stopped: what fails ends only this range, whose targets are
/// there for the next one.
template <typename Body>
void HeldMigration::attempt(HeldRange& range, Body&& body) noexcept {
  if (range.failure) return;
  try {
    body();
  } catch (...) {
    range.refuse(std::current_exception());
  }
}

void HeldMigration::plan(HeldRange& range) {
  Allocation& allocation = range.allocation;
  range.begun = range.untold = false;
  range.end = SIZE_MAX;
  require_no_loss(allocation, "vma::migrate");
  if (leads_) {
    require_not_kept(allocation, "vma::migrate");
    require_importers_follow(allocation, range.to, "vma::migrate");
  } else {
    require_no_pin(allocation, "vma::migrate");
  }
  range.begun = true;
  if (terms_.choice == PlaceChoice::runtime) {
    parts_.reach.require(allocation, range.range, range.to, "vma::migrate");
  }
  parts_.reach.require_atomics(allocation, range.range, range.to, "vma::migrate");
  std::set<Place> sources;
  for (std::size_t slot = range.range.first; slot < range.range.end; ++slot) {
    const bool is_needed = Transaction::is_needed(memory_, allocation, slot, range.to);
    if (!is_needed || planned_before(range, slot)) continue;
    // Exported memory may move since it has a hook: so this look comes after that for pins.
    range.untold |= range.notices != nullptr && !range.notices->all_told(slot);
    range.transactions.emplace_back(memory_, parts_.engine, allocation, slot, range.to);
    range.reserved().hand_over_to(range.transactions.back());
    sources.insert(range.transactions.back().from());
  }
  if (range.untold) {
    range.begun = false;
    return range.transactions.clear();
  }
  // Before the first copy: what the CPU writes from here on waits until the move has ended.
  allocation.revoke_cpu(range.range.first, range.range.end, range.to);
  note_routes(range.report, sources, range.to);
}

/// Whether the chunk moves for a range before this one.
bool HeldMigration::planned_before(const HeldRange& range, std::size_t slot) const noexcept {
  for (const HeldRange* const other : ranges_) {
    if (other == &range) return false;
    if (&other->allocation != &range.allocation) continue;
    if (slot >= other->range.first && slot < other->range.end) return true;
  }
  return false;
}

/// All that is slow or may need memory, before anything is stopped.
void HeldMigration::prepare(HeldRange& range, MemoryPressure::Want& want) {
  const TimePoint start = clock_.now();
  std::deque<Transaction>& transactions = range.transactions;
  if (options_.nothing_runs || gated_) {
    std::set<Place> sources;
    for (const Transaction& transaction : transactions) sources.insert(transaction.from());
    const std::size_t copies =
        gated_ ? std::min(transactions.size(), HeldPipeline::copies_in_flight_max) : 1;
    for (const Place from : sources) parts_.engine.prepare(from, range.to, copies, under());
  } else {
    ahead_.prepare(range);
  }
  for (Transaction& transaction : transactions) transaction.prepare_source(ChunkStore::Turn::take);
  for (Transaction& transaction : transactions) transaction.take_clean_target();
  for (Transaction& transaction : transactions) {
    if (is_planned(transaction) && !transaction.take_cached_target()) break;
  }
  if (std::ranges::any_of(transactions, is_planned)) take_targets(range, want);
  range.report.phases.cache += clock_.now() - start;
}

/// Those that the cache does not have.
void HeldMigration::take_targets(HeldRange& range, MemoryPressure::Want& want) {
  require_room(range, want);
  // Host memory takes ten times as long to allocate as to copy; no work should stay stopped for
  // that. Importers are sent all targets before the stop.
  const bool all = options_.reserve_first || range.to.kind == Place::Kind::host || leads_;
  const bool before_stop = ahead_.used() || suspended_;
  bool shown = promised_bytes_.contains(range.to);  // Whether the place is full.
  for (Transaction& transaction : range.transactions) {
    if (!is_planned(transaction)) continue;
    if (all || !shown) {
      memory_.with_room(want, range.to, transaction.size_bytes(),
                        [&] { transaction.take_target(ChunkStore::Turn::take); });
      shown = true;
      continue;
    }
    // A hold waits for all work anyway, so the others are allocated beside its copies.
    if (!before_stop) break;
    try {
      transaction.take_target(ChunkStore::Turn::take);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      range.no_target = std::current_exception();
      break;
    }
  }
  promised_bytes_[range.to] += before_stop ? 0 : range.missing_bytes();
}

/// Refuses what cannot fit by the ledger, before anything is stopped.
void HeldMigration::require_room(const HeldRange& range, MemoryPressure::Want& want) {
  const auto promised = promised_bytes_.find(range.to);
  const std::uint64_t need_bytes =
      range.missing_bytes() + (promised == promised_bytes_.end() ? 0 : promised->second);
  memory_.with_room(want, range.to, need_bytes,
                    [&] { memory_.chunks().require_room(range.to, need_bytes, "vma::migrate"); });
}

/// Nothing is stopped, and none arrives any more.
void HeldMigration::prepare_importers(HeldRange& range) {
  if (range.transactions.empty() || !leads_) return;
  const bool shared = !range.allocation.importers().empty();
  std::vector<ExporterChunk> chunks;
  std::uint64_t bytes = 0;
  for (const Transaction& transaction : range.transactions) {
    if (shared && !transaction.target_exportable()) {
      throw Error(ErrorKind::unsupported, "vma::migrate",
                  fmt::format("memory at {} cannot be exported, and other processes have imported "
                              "the allocation",
                              to_string(range.to)));
    }
    if (shared) transaction.target().mark_shared();
    chunks.push_back(
        {transaction.slot(), transaction.target().handle(), range.to, transaction.size_bytes()});
    bytes += transaction.size_bytes();
  }
  constexpr std::uint64_t slowest_link_bytes_per_ms = 1'000'000;
  const HoldLimits limits = parts_.limits.of_hold(options_);
  const std::chrono::milliseconds copying(bytes / slowest_link_bytes_per_ms);
  decision_limit_ = limits.rest_limit + limits.patience + copying;
  importers_ = parts_.importers()->begin(range.allocation, {limits.rest_limit, decision_limit_});
  try {
    importers_->prepare(chunks);
  } catch (...) {
    importers_.reset();  // Before the chunks go.
    throw;
  }
}

/// The chunks of a route follow each other as their ranges do. Each route gets through its bytes at
/// an equal rate, so that all end together: the copies of different routes run side by side.
void HeldMigration::put_in_order() {
  using Route = std::pair<Place, Place>;
  std::map<Route, double> all_bytes, bytes_before;
  for (const HeldRange* const range : ranges_) {
    for (const Transaction& transaction : range->transactions) {
      all_bytes[{transaction.from(), range->to}] += static_cast<double>(transaction.size_bytes());
    }
  }
  std::vector<std::pair<double, HeldStep>> turns;
  for (HeldRange* const range : ranges_) {
    for (Transaction& transaction : range->transactions) {
      const Route route{transaction.from(), range->to};
      bytes_before[route] += static_cast<double>(transaction.size_bytes());
      turns.push_back({bytes_before[route] / all_bytes[route], {range, &transaction}});
    }
  }
  std::ranges::stable_sort(turns, {}, [](const auto& turn) { return turn.first; });
  for (const auto& [share, turn] : turns) order_.push_back(turn);
}

void HeldMigration::move_stopped() {
  // First, so that no importer can make the work of this process wait.
  if (importers_) importers_->stop();
  const HoldLimits limits = parts_.limits.of_hold(options_);
  const auto body = [this](StoppedWork& stopped) { pipeline(&stopped); };
  const HeldStep first = order_.front();
  try {
    suspended_ = suspended_ && !parts_.stops.suspend_while(limits, hold_report_, held_, body);
    if (gated_) {
      parts_.stops.gate_while(first.range->allocation,
                              parts_.limits.of_gate(options_, decision_limit_), hold_report_, held_,
                              body);
    } else if (!suspended_) {
      const BoundStream stream =
          parts_.engine.spare_stream(first.transaction->from(), first.range->to, ahead_.under());
      parts_.stops.hold_while(stream, limits, hold_report_, held_, body,
                              ahead_.used() ? &ahead_ : nullptr);
    }
  } catch (...) {
    note_hold();
    throw;
  }
  note_hold();
}

/// The hold counts in the report of each range with chunks to move.
void HeldMigration::note_hold() noexcept {
  for (HeldRange* const range : ranges_) {
    if (range->transactions.empty()) continue;
    range->report.stall = hold_report_.stall;
    range->report.stop = hold_report_.stop;
    range->report.retries = hold_report_.retries;
    range->report.gate_limit = hold_report_.gate_limit;
    range->report.phases.wait += hold_report_.phases.wait;
  }
}

void HeldMigration::move_unheld() {
  if (importers_) importers_->stop();
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  const Measuring measuring(clock_);
  pipeline(nullptr);
}

void HeldMigration::pipeline(StoppedWork* stopped) {
  begun_ = clock_.now();
  tell_begun();
  if (importers_) return pipeline_.run_with(*importers_, stopped, under());
  pipeline_.run(stopped);
}

/// Nothing could be stopped: ends each range that has a chunk to move.
void HeldMigration::fail_all(const std::exception_ptr& failure) noexcept {
  for (HeldRange* const range : ranges_) {
    if (!range->failure && !range->unwanted() && !range->has_all()) range->failure = failure;
  }
}

void HeldMigration::conclude(TimePoint start) noexcept {
  end_importers();
  end_copies();
  for (HeldRange* const range : ranges_) range->summarise();
  for (HeldRange* const range : ranges_) inherit_failure(*range);
  for (HeldRange* const range : ranges_) give_sources_up(*range);
  tell_ended();
  for (HeldRange* const range : ranges_) {
    range->report.wall = clock_.now() - start;
    range->transactions.clear();
  }
}

/// Before the former chunks go, so that their memory is free when the move has ended.
void HeldMigration::end_importers() noexcept {
  if (!importers_) return;
  if (ranges_.front()->has_all()) {
    const ExporterMove::Account account = importers_->await_end();
    ranges_.front()->report.importers = account.importers;
    ranges_.front()->report.importer_stall = account.stall;
  }
  importers_.reset();
}

/// Ends all copies that a failure left in progress. Their slots show the source.
void HeldMigration::end_copies() noexcept {
  // Those ahead of a hold run behind work that the program launched meanwhile; memory that is given
  // up is lost.
  const std::chrono::seconds patience(ahead_.used() ? 10 : 2);
  const TimePoint deadline = clock_.now() + patience;
  for (const HeldStep& turn : order_) turn.transaction->end_copy(deadline);
}

/// A chunk that moves for another range, and has stayed, has not moved for this one either.
void HeldMigration::inherit_failure(HeldRange& range) noexcept {
  if (range.report.outcome != Outcome::done || range.untold) return;
  for (const HeldRange* const other : ranges_) {
    if (other == &range) return;
    if (&other->allocation != &range.allocation || other->report.outcome == Outcome::done) continue;
    const std::size_t first = std::max(range.range.first, other->range.first);
    const std::size_t end = std::min(range.range.end, other->range.end);
    for (std::size_t slot = first; slot < end; ++slot) {
      if (range.allocation.place(slot) == range.to) continue;
      range.failure = other->failure;
      range.summarise();
      if (!range.failure) range.report.outcome = Outcome::cancelled;
      return;
    }
  }
}

void HeldMigration::give_sources_up(HeldRange& range) noexcept {
  const TimePoint start = clock_.now();
  for (Transaction& transaction : range.transactions) {
    if (!is_switched(transaction)) continue;
    range.report.copies_kept += transaction.give_source_up(options_, terms_) ? 1 : 0;
  }
  range.report.phases.retire = clock_.now() - start;
}

/// For watchers, all chunks of a move that stops the work once begin and end together.
void HeldMigration::tell_begun() noexcept {
  for (const HeldStep& turn : order_) {
    parts_.observers.tell(step_of(turn, ChunkStep::Kind::begun));
  }
}

void HeldMigration::tell_ended() noexcept {
  if (!pipeline_.ran()) return;
  if (stopped()) {
    ChunkStep step = step_of(order_.front(), ChunkStep::Kind::stopped);
    step.begin = held_.stopped;
    step.end = held_.opened;
    parts_.observers.tell(step);
  }
  for (const auto& [range, transaction] : order_) {
    const bool moved = is_switched(*transaction);
    const auto kind = moved ? ChunkStep::Kind::moved : ChunkStep::Kind::stayed;
    parts_.observers.tell(step_of({range, transaction}, kind));
  }
}

ChunkStep HeldMigration::step_of(HeldStep turn, ChunkStep::Kind kind) const {
  ChunkStep step = vma::step_of(*turn.transaction, kind, turn.range->report, terms_);
  step.begin = begun_;
  step.end = clock_.now();
  step.stall = stall();
  return step;
}

}  // namespace vma
