#include "scheduling/scheduler.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t uses_at_once = 65'536;
constexpr const char* last_resort = "stay_put";

/// Requires: the offset lies in it.
ChunkId chunk_at(const ChunkRoster::Entry& entry, std::uint64_t offset) {
  return ChunkId{static_cast<std::uint32_t>(index(entry.first) + offset / entry.chunk_bytes)};
}

}  // namespace

Scheduler::Scheduler(const SchedulerGround& ground, std::vector<PlaceState> places,
                     MachineCosts costs, const SchedulerLimits& limits, PolicyMaker make,
                     const std::string& policy)
    : ground_(ground),
      clock_(ground.driver.clock()),
      limits_(limits),
      make_(std::move(make)),
      inbox_(std::make_shared<SchedulerInbox>()),
      costs_(std::move(costs)),
      roster_(ground.memory.topology(), ground.mover),
      path_(std::move(places), costs_, limits.planner, limits.heat),
      failures_(limits.failures),
      summary_(ground.memory.registry(), ground.memory.topology()),
      tick_times_(std::make_unique<StopStats>()) {
  const MutexLock lock(mutex_);
  path_.books().set_now(clock_.now());
  install(policy, "asked for");
  // From here on nothing is missed; what is there already comes in by its own list.
  ground_.memory.watch(inbox_.get());
  for (const auto& allocation : ground_.memory.registry().all()) inbox_->made(allocation);
  ground_.mover.watch([inbox = inbox_](const std::shared_ptr<Allocation>& allocation,
                                       const MigrationReport&) { inbox->changed(*allocation); });
  ground_.uses.wake_with([inbox = inbox_] { inbox->wake(); });
}

Scheduler::~Scheduler() {
  ground_.uses.wake_with({});
  ground_.mover.watch({});
  ground_.memory.watch(nullptr);
  wake_with({});
}

void Scheduler::wake_with(std::function<void()> wake) {
  inbox_->wake_with(std::move(wake));
}

// --- What has happened

void Scheduler::catch_up() {
  leave_books_to_lost_policy();
  path_.books().set_now(clock_.now());
  take_ended();
  take_inbox();
}

void Scheduler::take_inbox() {
  inbox_->take(events_);
  if (inbox_->missed()) look_up_missed();
  std::size_t taken = 0;
  const auto forget_taken = [&]() VMART_NO_THREAD_ANALYSIS {
    events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(taken));
  };
  try {
    while (taken < events_.size() && take_event(events_[taken])) ++taken;
  } catch (...) {  // The event that threw is taken again the next time.
    forget_taken();
    throw;
  }
  forget_taken();
  if (inbox_->take_scope_changed()) roster_.refresh_all(path_.books());
}

/// There was no memory for some events, so the registry says what they were: what is gone, then
/// what is there. What is known already is not taken twice.
void Scheduler::look_up_missed() {
  std::vector<SchedulerInbox::Event> events;
  using Kind = SchedulerInbox::Event::Kind;
  for (const auto& [begin, entry] : roster_.entries()) {
    if (entry.allocation.expired()) events.push_back({Kind::freed, begin, {}, {}});
  }
  for (const auto& allocation : ground_.memory.registry().all()) {
    events.push_back({Kind::made, allocation->begin(), allocation, {}});
  }
  events_.insert(events_.end(), events.begin(), events.end());
  inbox_->found_missed();
  inbox_->scope_changed();
}

/// False if it has to wait, and with it all later ones: its moves have not ended yet.
bool Scheduler::take_event(const SchedulerInbox::Event& event) {
  using Kind = SchedulerInbox::Event::Kind;
  if (event.kind == Kind::made) {
    const std::shared_ptr<Allocation> allocation = event.allocation.lock();
    if (!allocation) return true;
    const ChunkRoster::Entry* entry = roster_.add(allocation, path_.books());
    if (entry != nullptr) record_allocation(*entry);
    return true;
  }
  if (event.kind == Kind::step) {
    record_step(event.step);
    return true;
  }
  const ChunkRoster::Entry* entry = roster_.find(event.begin);
  if (entry == nullptr) return true;
  if (event.kind == Kind::changed) {
    roster_.refresh(*entry, path_.books());
    return true;
  }
  const bool moves = std::ranges::any_of(
      running_, [&](const Running& group) { return group.begin == event.begin; });
  if (moves) return false;
  path_.drop_moves(entry->first, entry->slots);
  const ChunkRoster::Entry gone = roster_.remove(event.begin);
  path_.gone(gone.first, gone.slots);
  if (ground_.recording != nullptr) {
    ground_.recording->add(RecordedFree{path_.books().now(), gone.number});
  }
  return true;
}

void Scheduler::take_uses(std::vector<UseEvent>& events) {
  while (true) {
    raw_uses_.clear();
    ground_.uses.drain(raw_uses_, uses_at_once);
    if (raw_uses_.empty()) break;
    stats_.uses += raw_uses_.size();
    summary_.add(raw_uses_);
    if (ground_.recording != nullptr) {
      std::vector<RecordedUse> records;
      for (const LoggedUse& use : raw_uses_) {
        const ChunkRoster::Entry* entry = roster_.around(use.address);
        if (entry == nullptr) continue;
        const std::uint64_t offset = use.address - entry->begin;
        if (path_.snapshot().chunk(chunk_at(*entry, offset)).dropped) continue;
        records.push_back({use.at, entry->number, offset, use.bytes, use.passes, use.weight,
                           roster_.place_of(gpu(index(use.device))), use.kind});
      }
      ground_.recording->add(records);
    }
    if (raw_uses_.size() < uses_at_once) break;  // What comes meanwhile is for the next time.
  }
  for (const UseSummary::Row& row : summary_.rows()) {
    const ChunkRoster::Entry* entry = roster_.find(row.begin);
    if (entry == nullptr || row.slot >= entry->slots) continue;  // Freed since.
    const ChunkId chunk{static_cast<std::uint32_t>(index(entry->first) + row.slot)};
    if (path_.snapshot().chunk(chunk).dropped) continue;  // Nothing can have used it.
    const PlaceId device = roster_.place_of(gpu(index(row.device)));
    events.push_back({chunk, device, row.bytes_read, row.bytes_written, nullptr});
  }
  path_.fold_uses(events);
  summary_.clear();
}

void Scheduler::take_hints(std::vector<UseEvent>& events) {
  std::vector<AdvisedRange> advised;
  ground_.uses.drain_hints(advised);
  for (const AdvisedRange& range : advised) {
    const ChunkRoster::Entry* entry = roster_.around(range.address);
    if (entry == nullptr) continue;
    ++stats_.hints;
    if (ground_.recording != nullptr) {
      ground_.recording->add(RecordedHint{range.at, entry->number, range.address - entry->begin,
                                          range.bytes, range.hint});
    }
    Hint hint = range.hint;
    // From now on, but not past the end of time.
    if (hint.next_use) *hint.next_use += std::min(range.at, Time::max() - *hint.next_use);
    if (hint.until) *hint.until += std::min(range.at, Time::max() - *hint.until);
    const std::uint64_t begin = range.address - entry->begin;
    const std::uint64_t end = std::min(begin + range.bytes, entry->size_bytes);
    for (std::uint64_t slot = begin / entry->chunk_bytes; slot * entry->chunk_bytes < end; ++slot) {
      const ChunkId chunk{static_cast<std::uint32_t>(index(entry->first) + slot)};
      if (path_.snapshot().chunk(chunk).dropped) continue;  // As a use of it.
      path_.books().hinted(chunk, hint);
      events.push_back({chunk, roster_.place_of(hint.device), 0, 0, nullptr});
    }
  }
}

bool Scheduler::drain() {
  const MutexLock lock(mutex_);
  if (stopped_) return false;
  return drain_locked();
}

bool Scheduler::drain_locked() {
  catch_up();
  start_ready();  // Room that has come is that of the moves that it was made for.
  auto events = std::make_shared<std::vector<UseEvent>>();
  take_uses(*events);
  const std::size_t hints_from = events->size();
  take_hints(*events);
  if (!events->empty() && !paused_) {
    Plan plan;
    const auto call = [events, hints_from](Policy& policy, const Snapshot& snapshot, Plan& wishes) {
      for (std::size_t i = 0; i < events->size(); ++i) {
        UseEvent event = (*events)[i];
        if (i >= hints_from) {
          event.hint = snapshot.hint(event.chunk);
          if (event.hint == nullptr) continue;  // Over already.
        }
        policy.on_use(event, snapshot, wishes);
      }
    };
    if (ask(PolicyEntry::use, call, plan)) carry_out(plan);
    start_ready();
  }
  return !events->empty();
}

void Scheduler::tick(bool late) {
  const MutexLock lock(mutex_);
  if (stopped_) return;
  stats_.ticks_late += late ? 1 : 0;
  if (paused_) {
    drain_locked();
    return;
  }
  tick_locked();
}

void Scheduler::tick_locked() {
  SteadyClock clock;
  const TimePoint begin = clock.now();
  catch_up();
  start_ready();
  Plan plan;
  const auto call = [](Policy& policy, const Snapshot& snapshot, Plan& wishes) {
    policy.on_tick(snapshot, wishes);
  };
  if (ask(PolicyEntry::tick, call, plan)) carry_out(plan);
  path_.books().clear_changed();
  start_ready();
  ++stats_.ticks;
  const std::chrono::nanoseconds took = clock.now() - begin;
  stats_.tick_time += took;
  tick_times_->add_stall(took);
  ground_.decisions.flush(path_.books().now());
  if (ground_.recording != nullptr) ground_.recording->flush(path_.books().now());
}

// --- The policy

/// False if the policy produced no plan. What it reads stays as it is until it returns, whenever
/// that is.
bool Scheduler::ask(PolicyEntry entry, PolicyCall call, Plan& plan) {
  replace_failed_policy();
  DecisionPath::Question question = path_.question(std::move(call));
  const PolicyRunner::Answer answer = runner_->run(std::move(question.ask), limits_.policy_limit);
  if (answer.outcome == PolicyRunner::Outcome::done) {
    failures_.succeeded(entry);
    plan = std::move(*question.wishes);
    ++plans_;
    return true;
  }
  const bool lost = answer.outcome == PolicyRunner::Outcome::overran;
  count_failure(entry, lost);
  policy_failed(
      lost
          ? fmt::format(
                "it has not answered within {} ms",
                std::chrono::duration_cast<std::chrono::milliseconds>(limits_.policy_limit).count())
          : answer.why);
  return false;
}

void Scheduler::count_failure(PolicyEntry entry, bool lost) noexcept {
  ++stats_.policy_failures;
  const PolicyFailures::Replacement due = failures_.failed(entry, clock_.now(), lost);
  if (due != PolicyFailures::Replacement::none) due_ = due;
  books_shared_ = books_shared_ || lost;
}

/// Requires: the failure is counted, so that the next call replaces the policy if this one throws.
void Scheduler::policy_failed(const std::string& why) {
  log_failure(why);
  Decision failed;
  failed.kind = DecisionKind::policy_failed;
  failed.reason = why;
  decide(std::move(failed));
  leave_books_to_lost_policy();
  replace_failed_policy();
}

/// A policy that overran may read its books for ever, so the scheduler goes on with a copy.
/// Throws: std::bad_alloc; nobody may write to the books until it has not.
void Scheduler::leave_books_to_lost_policy() {
  if (!books_shared_) return;
  path_.leave_books();
  books_shared_ = false;
}

/// Throws: what `install` throws; then the next call tries again.
void Scheduler::replace_failed_policy() {
  using Replacement = PolicyFailures::Replacement;
  switch (due_) {
    case Replacement::none: return;
    case Replacement::failed_in_a_row:
      install(last_resort,
              fmt::format("{} failed {} times in a row", policy_, limits_.failures.in_a_row_max));
      break;
    case Replacement::failed_in_window:
      install(last_resort,
              fmt::format("{} failed {} times in {:.0f} s", policy_, failures_.in_window(),
                          std::chrono::duration<double>(limits_.failures.window).count()));
      break;
    case Replacement::lost: install(policy_, "the previous one does not answer"); break;
  }
  due_ = Replacement::none;
}

/// Once a second at most; decisions have them all.
void Scheduler::log_failure(const std::string& why) noexcept {
  constexpr std::chrono::seconds period(1);
  const TimePoint now = wall_clock_.now();
  if (failure_logged_ && now - *failure_logged_ < period) {
    ++failures_not_logged_;
    return;
  }
  failure_logged_ = now;
  const std::uint64_t more = std::exchange(failures_not_logged_, 0);
  if (more > 0) {
    log(LogLevel::warn, "policy {}: {}; its plan is dropped ({} failures before were not logged)",
        policy_, why, more);
  } else {
    log(LogLevel::warn, "policy {}: {}; its plan is dropped", policy_, why);
  }
}

/// Throws: what the maker throws; then all is as it was.
void Scheduler::install(const std::string& text, const std::string& why) {
  std::shared_ptr<Policy> policy = make_(text);
  runner_ = std::make_unique<PolicyRunner>(ground_.driver.executor(), std::move(policy));
  if (text != policy_) forget_failures();
  policy_ = text;
  Decision replaced;
  replaced.kind = DecisionKind::policy_replaced;
  replaced.reason = why;
  decide(std::move(replaced));
}

void Scheduler::forget_failures() noexcept {
  failures_.forget();
  due_ = PolicyFailures::Replacement::none;
}

void Scheduler::set_policy(const std::string& text) {
  const MutexLock lock(mutex_);
  leave_books_to_lost_policy();
  install(text, "asked for");
  forget_failures();
}

std::string Scheduler::policy() const {
  const MutexLock lock(mutex_);
  return policy_;
}

void Scheduler::pause() {
  const MutexLock lock(mutex_);
  if (std::exchange(paused_, true)) return;
  Decision decision;
  decision.kind = DecisionKind::paused;
  decide(std::move(decision));
}

void Scheduler::resume() {
  const MutexLock lock(mutex_);
  if (!std::exchange(paused_, false)) return;
  Decision decision;
  decision.kind = DecisionKind::resumed;
  decide(std::move(decision));
}

bool Scheduler::close_within(std::chrono::nanoseconds limit) noexcept {
  SteadyClock wall;
  if (!poll_until(wall, wall.now() + limit, [this] { return mutex_.try_lock(); })) return false;
  if (!std::exchange(stopped_, true)) {
    try {
      catch_up();
      std::vector<UseEvent> events;
      take_uses(events);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "not all uses are recorded: {}", error.what());
    }
  }
  mutex_.unlock();
  return true;
}

void Scheduler::stop() noexcept {
  const MutexLock lock(mutex_);
  stopped_ = true;
  move_ended_.notify_all();
}

void Scheduler::step() {
  const MutexLock lock(mutex_);
  if (stopped_) return;
  const bool paused = std::exchange(paused_, false);
  const auto restore = [&]() VMART_NO_THREAD_ANALYSIS { paused_ = paused; };
  try {
    drain_locked();
    tick_locked();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

// --- What it says of itself

SchedulerStats Scheduler::stats() const {
  const UseLog::Counters uses = ground_.uses.counters();
  const MutexLock lock(mutex_);
  SchedulerStats stats = stats_;
  stats.running = true;
  stats.paused = paused_;
  stats.dry_run = limits_.dry_run;
  stats.policy = policy_;
  stats.tick = tick_times_->stall();
  stats.uses_sampled = uses.sampled_away;
  stats.uses_lost = uses.lost + path_.books().uses_lost();
  stats.uses_unknown = summary_.ignored().unknown_uses + summary_.ignored().bad_uses;
  stats.chunks = path_.books().size();
  stats.table_bytes = path_.books().table_bytes();
  stats.heat_bytes = path_.books().heat_bytes();
  stats.prediction_error = predictions_.total(Foretold::move).median_error;
  return stats;
}

std::vector<PlaceState> Scheduler::places() const {
  const MutexLock lock(mutex_);
  const std::span<const PlaceState> places = path_.snapshot().places();
  return {places.begin(), places.end()};
}

std::vector<Location> Scheduler::closed_places() const {
  const MutexLock lock(mutex_);
  std::vector<Location> closed;
  for (const auto& [place, capacity_bytes] : drained_) closed.push_back(roster_.location_of(place));
  return closed;
}

std::vector<Decision> Scheduler::decisions_about(Address begin,
                                                 std::optional<std::uint32_t> slot) const {
  constexpr std::size_t decisions_shown = 2048;
  const MutexLock lock(mutex_);
  const ChunkRoster::Entry* entry = roster_.find(begin);
  if (entry == nullptr) return {};
  return ground_.decisions.about(entry->number, slot, decisions_shown);
}

}  // namespace vma
