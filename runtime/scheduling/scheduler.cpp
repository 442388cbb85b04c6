#include "scheduling/scheduler.hpp"

#include "base/log.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "scheduling/decision_journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

Scheduler::Scheduler(const SchedulerGround& ground, std::vector<PlaceState> places,
                     const MachineCosts& costs, const SchedulerLimits& limits, PolicyMaker make,
                     const std::string& policy)
    : ground_(ground),
      clock_(ground.driver.clock()),
      limits_(limits),
      inbox_(std::make_shared<SchedulerInbox>()),
      roster_(ground.memory.topology(), ground.migrator),
      path_(std::move(places), costs, limits.planner, limits.heat, limits.pace),
      journal_(path_, roster_, ground.decisions, ground.recording, ground.decided),
      policy_(ground.driver.executor(), clock_, limits.policy_limit, limits.failures,
              std::move(make), path_, journal_),
      uses_(ground.uses, ground.memory, roster_, path_, journal_,
            [this]() VMART_NO_THREAD_ANALYSIS { catch_up(); }),
      moves_(ground.migrator, clock_, roster_, path_, journal_, inbox_, costs),
      tick_times_(std::make_unique<StopStats>()) {
  const MutexLock lock(mutex_);
  path_.books().set_now(clock_.now());
  policy_.set(policy);
  // From here on no event is missed; existing allocations are added one by one.
  ground_.memory.watch(inbox_.get());
  for (const auto& allocation : ground_.memory.registry().all()) {
    if (!allocation->imported()) inbox_->made(allocation);
  }
  ground_.migrator.watch([inbox = inbox_](const std::shared_ptr<Allocation>& allocation,
                                          const MigrationReport&) { inbox->changed(*allocation); });
  ground_.uses.wake_with([inbox = inbox_] { inbox->wake(); });
}

Scheduler::~Scheduler() {
  let_go();
}

void Scheduler::let_go() noexcept {
  ground_.uses.wake_with({});
  ground_.migrator.watch({});
  ground_.memory.watch(nullptr);
  wake_with({});
}

// --- What has happened

void Scheduler::catch_up() {
  policy_.leave_books_to_lost_one();
  path_.books().set_now(clock_.now());
  take_ended();
  take_inbox();
}

void Scheduler::take_ended() {
  if (moves_.take_ended()) move_ended_.notify_all();
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
  } catch (...) {  // The event that threw is handled again next time.
    forget_taken();
    throw;
  }
  forget_taken();
  if (inbox_->take_scope_changed()) roster_.refresh_all(path_.books());
}

/// There was no memory for some events, so they are reconstructed from the registry: first the
/// freed allocations, then the existing ones. Known ones are not added twice.
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

/// False if the event has to wait for moves to end, and with it all later ones.
bool Scheduler::take_event(const SchedulerInbox::Event& event) {
  using Kind = SchedulerInbox::Event::Kind;
  if (event.kind == Kind::made) {
    const std::shared_ptr<Allocation> allocation = event.allocation.lock();
    const ChunkRoster::Entry* entry = allocation ? roster_.add(allocation, path_.books()) : nullptr;
    if (entry != nullptr) journal_.record_allocation(*entry);
    return true;
  }
  if (event.kind == Kind::step) {
    journal_.record_step(event.step);
    return true;
  }
  if (event.kind == Kind::freed) uses_.forget(event.begin);
  const ChunkRoster::Entry* entry = roster_.find(event.begin);
  if (entry == nullptr) return true;
  if (event.kind == Kind::changed) {
    roster_.refresh(*entry, path_.books());
    return true;
  }
  if (moves_.any_of(event.begin)) return false;
  path_.drop_moves(entry->first, entry->slots);
  const ChunkRoster::Entry gone = roster_.remove(event.begin);
  path_.gone(gone.first, gone.slots);
  journal_.record_free(gone);
  return true;
}

bool Scheduler::collect() {
  const MutexLock lock(mutex_);
  if (stopped_) return false;
  return collect_locked();
}

bool Scheduler::collect_locked() {
  catch_up();
  moves_.watch_pace(uses_.reported());
  start_ready();  // Room that became free belongs to the moves that it was made for.
  auto reports = std::make_shared<UseReports>();
  uses_.take_uses(*reports);
  uses_.take_hints(*reports);
  if (!reports->empty() && !paused_) {
    Plan plan;
    const auto call = [reports](Policy& policy, const Snapshot& snapshot, Plan& proposals) {
      reports->tell(policy, snapshot, proposals);
    };
    if (policy_.ask(PolicyEntry::use, call, plan)) moves_.accept(plan);
    start_ready();
  }
  return !reports->empty();
}

void Scheduler::tick(bool late) {
  CopyScopes::process().look();  // For the moves; without the lock, which constructors wait for.
  const MutexLock lock(mutex_);
  if (stopped_) return;
  stats_.ticks_late += late ? 1 : 0;
  if (paused_) {
    collect_locked();
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
  const auto call = [](Policy& policy, const Snapshot& snapshot, Plan& proposals) {
    policy.on_tick(snapshot, proposals);
  };
  if (policy_.ask(PolicyEntry::tick, call, plan)) moves_.accept(plan);
  moves_.judge_ahead();
  path_.books().clear_changed();
  start_ready();
  if (!roster_.entries().empty()) ground_.migrator.prepare_suspensions();
  ++stats_.ticks;
  const std::chrono::nanoseconds took = clock.now() - begin;
  stats_.tick_time += took;
  tick_times_->add_stall(took);
  journal_.flush();
}

void Scheduler::start_ready() {
  if (limits_.dry_run) {
    for (const MoveNumber number : path_.waiting()) moves_.give_up(number, "dry run");
  }
  if (paused_ || !path_.has_waiting()) return;
  moves_.start_ready();
  take_ended();  // Moves that the migrator refused.
}

// --- For people and programs

void Scheduler::set_policy(const std::string& text) {
  const MutexLock lock(mutex_);
  policy_.set(text);
  policy_was_set_ = true;
}

std::string Scheduler::policy() const {
  const MutexLock lock(mutex_);
  return journal_.policy();
}

void Scheduler::pause() {
  const MutexLock lock(mutex_);
  if (std::exchange(paused_, true)) return;
  journal_.add(DecisionKind::paused);
}

void Scheduler::resume() {
  const MutexLock lock(mutex_);
  if (!std::exchange(paused_, false)) return;
  journal_.add(DecisionKind::resumed);
}

bool Scheduler::close_within(std::chrono::nanoseconds limit) noexcept {
  SteadyClock wall;
  if (!poll_until(wall, wall.now() + limit, [this] { return mutex_.try_lock(); })) return false;
  if (!std::exchange(stopped_, true)) {
    try {
      catch_up();
      UseReports reports;
      uses_.take_uses(reports);
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
    collect_locked();
    tick_locked();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

// --- Where new memory goes, and making room

std::vector<Place> Scheduler::place(const Geometry& geometry, Place device,
                                    const AllocOptions& options) {
  const MutexLock lock(mutex_);
  catch_up();
  const PlaceId user = roster_.place_of(device);
  // GPUs that reach it on `device` must reach it wherever else it goes.
  const Reach& reach = ground_.migrator.reach();
  const std::vector<DeviceId> users = reach.users(device);
  const ChunkRoster* roster = &roster_;  // The lock is held in the lambda too.
  const auto reached = [&, roster](PlaceId at) {
    return reach.suits(users, roster->place_at(at), options.shared_atomics);
  };
  std::vector<std::uint64_t> chunks(geometry.slots);
  for (std::size_t slot = 0; slot < geometry.slots; ++slot)
    chunks[slot] = geometry.slot_bytes(slot);
  const std::vector<PlaceId> otherwise = path_.first_places(user, chunks, reached);
  const auto chosen = std::make_shared<std::vector<PlaceId>>(otherwise);
  Plan ignored;
  const bool decided = policy_.ask(
      PolicyEntry::alloc,
      [chosen, geometry, user, tag = options.tag](Policy& policy, const Snapshot& snapshot, Plan&) {
        const AllocRequest request{geometry.size_bytes(), geometry.chunk_bytes, user, tag};
        policy.on_alloc(request, snapshot, *chosen);
      },
      ignored);
  // A policy that overran may still write to its own list.
  const std::vector<PlaceId>& places = decided ? *chosen : otherwise;
  std::vector<Place> homes;
  for (std::size_t slot = 0; slot < geometry.slots; ++slot) {
    const PlaceId at = places[slot];
    const bool good = index(at) < path_.books().costs().places() && reached(at);
    homes.push_back(roster_.place_at(good ? at : otherwise[slot]));
  }
  return homes;
}

bool Scheduler::make_room(Place at, std::uint64_t bytes, TimePoint until) {
  MutexLock lock(mutex_);
  const PlaceId place = roster_.place_of(at);
  catch_up();
  const std::uint64_t before = used_bytes(place);
  const Pressure pressure{place, bytes, place};
  Plan plan;
  policy_.ask(
      PolicyEntry::pressure,
      [pressure](Policy& policy, const Snapshot& snapshot, Plan& proposals) {
        policy.on_pressure(pressure, snapshot, proposals);
      },
      plan);
  path_.complete_pressure(pressure, plan);
  moves_.accept(plan, true);
  start_ready();
  while (used_bytes(place) + bytes > before && (!moves_.empty() || path_.has_waiting())) {
    if (clock_.now() >= until || stopped_) break;
    await_end(lock, until);
    catch_up();
    start_ready();
  }
  return used_bytes(place) < before;
}

/// Returns early once another thread has entered the end of a move into the books.
void Scheduler::await_end(MutexLock& lock, TimePoint until) {
  constexpr std::chrono::milliseconds look_period(2);  // For ends that nobody has entered yet.
  const TimePoint time = std::min(until, clock_.now() + look_period);
  move_ended_.wait_until(lock, clock_, time, [&, seen = moves_.ended()]() VMART_NO_THREAD_ANALYSIS {
    return moves_.ended() != seen || stopped_;
  });
}

std::uint64_t Scheduler::used_bytes(PlaceId at) const {
  return path_.snapshot().place(at).used_bytes;
}

/// Closes the place for new chunks. Throws: Error{busy} while paused; then nothing has changed.
PlaceId Scheduler::close_for_drain(Place at) {
  const MutexLock lock(mutex_);
  if (paused_) {
    throw Error(ErrorKind::busy, "vma::drain",
                "the scheduler is paused, so nothing can move; resume it before draining");
  }
  const PlaceId place = roster_.place_of(at);
  catch_up();
  if (drained_.contains(place)) return place;
  drained_.emplace(place, path_.snapshot().place(place).capacity_bytes);
  path_.books().set_capacity(place, 0);
  Decision decision;
  decision.kind = DecisionKind::drained;
  decision.from = at;
  journal_.add(std::move(decision));
  return place;
}

DrainReport Scheduler::drain_place(Place at, const DrainOptions& options) {
  DrainReport report;
  const TimePoint begin = clock_.now();
  const TimePoint until = later(begin, options.deadline);
  const PlaceId place = close_for_drain(at);
  while (Chunk copy = ground_.memory.chunks().copies().drop_oldest(at)) {  // Not in the books.
    ground_.memory.chunks().dismiss(std::move(copy));
    if (clock_.now() >= until) break;
  }
  MutexLock lock(mutex_);
  catch_up();
  const std::uint64_t before = used_bytes(place);
  while ((used_bytes(place) > 0 || moves_.any_from(place)) && drained_.contains(place)) {
    Plan plan;
    journal_.begin_plan();
    path_.complete_pressure({place, used_bytes(place), place}, plan);
    moves_.accept(plan, true);
    start_ready();
    const bool idle = plan.empty() && moves_.empty() && !path_.has_waiting();
    if (clock_.now() >= until || stopped_ || paused_ || (idle && !may_leave_later(place))) break;
    await_end(lock, until);
    catch_up();
  }
  give_up_drain(place);
  report.bytes_left = used_bytes(place);
  report.bytes_moved = before > report.bytes_left ? before - report.bytes_left : 0;
  report.wall = clock_.now() - begin;
  for (const ChunkRow& row : path_.snapshot().chunks()) {
    if (row.bytes == 0 || row.at != place || row.dropped) continue;
    ++report.left[!row.movable    ? "pinned"
                  : !row.in_scope ? Migrator::why_no_stop
                  : paused_       ? "the scheduler was paused"
                                  : "no room elsewhere, or no time"];
  }
  return report;
}

/// The caller has returned: moves that have not started are cancelled.
void Scheduler::give_up_drain(PlaceId at) {
  for (const MoveNumber number : path_.awaited_from(at))
    moves_.give_up(number, "the drain has ended");
  moves_.cancel_awaited_from(at);
}

/// Chunks that can never move are not waited for; those held after an arrival are.
bool Scheduler::may_leave_later(PlaceId at) const {
  const PlannerLimits& limits = path_.planner().limits();
  const Time held = std::max(limits.least_residence, limits.thrash_window + limits.thrash_pin);
  const Time since = std::max(Time::zero(), path_.books().now() - held);
  return std::ranges::any_of(path_.snapshot().chunks(), [&](const ChunkRow& row) {
    return row.bytes > 0 && row.at == at && row.movable && row.in_scope && !row.parked &&
           !row.dropped && row.last_move > since;
  });
}

void Scheduler::refill(Place at) {
  const MutexLock lock(mutex_);
  policy_.leave_books_to_lost_one();
  const auto drained = drained_.find(roster_.place_of(at));
  if (drained == drained_.end()) return;
  path_.books().set_capacity(drained->first, drained->second);
  drained_.erase(drained);
  Decision decision;
  decision.kind = DecisionKind::refilled;
  decision.to = at;
  journal_.add(std::move(decision));
}

void Scheduler::set_capacity(Place at, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  policy_.leave_books_to_lost_one();
  const PlaceId place = roster_.place_of(at);
  const auto drained = drained_.find(place);
  if (drained != drained_.end()) {
    drained->second = bytes;
  } else {
    path_.books().set_capacity(place, bytes);
  }
}

void Scheduler::set_parked(Address begin, bool parked) {
  const MutexLock lock(mutex_);
  policy_.leave_books_to_lost_one();
  take_inbox();
  const ChunkRoster::Entry* entry = roster_.find(begin);
  if (entry == nullptr) return;
  for (std::size_t slot = 0; slot < entry->slots; ++slot) {
    const ChunkId chunk = entry->chunk(slot);
    path_.books().row(chunk).parked = parked;
    path_.books().touch(chunk);
  }
}

// --- Statistics

SchedulerStats Scheduler::stats() const {
  const UseLog::Counters uses = ground_.uses.counters();
  const MutexLock lock(mutex_);
  SchedulerStats stats = stats_;
  stats.running = true;
  stats.paused = paused_;
  stats.dry_run = limits_.dry_run;
  stats.policy = journal_.policy();
  stats.policy_failures = policy_.failures();
  stats.tick = tick_times_->stall();
  stats.uses = uses_.uses();
  stats.hints = uses_.hints();
  stats.uses_sampled = uses.sampled_away;
  stats.uses_lost = uses.lost + path_.books().uses_lost();
  stats.uses_unknown = uses_.uses_unknown();
  moves_.count_in(stats);
  stats.chunks = path_.books().size();
  stats.table_bytes = path_.books().table_bytes();
  stats.heat_bytes = path_.books().heat_bytes();
  return stats;
}

std::vector<PlaceState> Scheduler::places() {
  const MutexLock lock(mutex_);
  if (!stopped_) catch_up();  // A move that has ended shows before the next tick.
  const std::span<const PlaceState> places = path_.snapshot().places();
  return {places.begin(), places.end()};
}

std::vector<Place> Scheduler::closed_places() const {
  const MutexLock lock(mutex_);
  std::vector<Place> closed;
  for (const auto& [place, capacity_bytes] : drained_) closed.push_back(roster_.place_at(place));
  return closed;
}

std::vector<Decision> Scheduler::decisions_about(Address begin,
                                                 std::optional<std::uint32_t> slot) const {
  constexpr std::size_t decisions_shown = 2048;
  const MutexLock lock(mutex_);
  const ChunkRoster::Entry* entry = roster_.find(begin);
  if (entry == nullptr) return {};
  return journal_.last(entry->number, slot, decisions_shown);
}

std::vector<std::string> Scheduler::explain(Address address) const {
  const MutexLock lock(mutex_);
  const ChunkRoster::Entry* entry = roster_.around(address);
  if (entry == nullptr) return {"the scheduler does not know the chunk yet"};
  const auto slot = static_cast<std::uint32_t>((address - entry->begin) / entry->chunk_bytes);
  return explain_chunk(*entry, slot, path_.snapshot(), roster_, journal_, paused_);
}

}  // namespace vma
