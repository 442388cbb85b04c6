#include "parking/parker.hpp"

#include "base/log.hpp"
#include "memory/move_claim.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

/// Adjacent slots of one allocation that go to one place, or are dropped.
struct Parker::Step {
  enum class Kind { move, drop, restore };
  Kind kind = Kind::move;
  std::shared_ptr<Allocation> allocation;
  SlotRange range;
  Place to;  ///< Unused for a drop.
  std::uint64_t size_bytes = 0;
  std::uint64_t moved_bytes = 0;
  bool full = false;   ///< The target has no room.
  std::string reason;  ///< Why some of it has not moved.
};

namespace {

bool in_hbm(Place at) {
  return at.kind == Place::Kind::gpu;
}

/// Adds the slot to the last step, or starts a new step.
template <typename Step>
void append(std::vector<Step>& steps, typename Step::Kind kind,
            const std::shared_ptr<Allocation>& allocation, std::size_t slot, Place to) {
  const std::uint64_t slot_bytes = allocation->geometry().slot_bytes(slot);
  const bool joins = !steps.empty() && steps.back().allocation == allocation &&
                     steps.back().kind == kind && steps.back().range.end == slot &&
                     steps.back().to == to;
  if (joins) {
    ++steps.back().range.end;
    steps.back().size_bytes += slot_bytes;
    return;
  }
  Step step;
  step.kind = kind;
  step.allocation = allocation;
  step.range = {slot, slot + 1};
  step.to = to;
  step.size_bytes = slot_bytes;
  steps.push_back(std::move(step));
}

}  // namespace

Parker::Parker(Memory& memory, Migrator& migrator) : memory_(memory), migrator_(migrator) {}

ParkReport Parker::park(const std::string& tag, const ParkOptions& options) {
  constexpr const char* call = "vma::park";
  if (tag.empty()) throw Error(ErrorKind::invalid_argument, call, "the tag is empty");
  if (options.to) memory_.topology().require(*options.to, call);
  if (options.to && in_hbm(*options.to)) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("{} is not a host node", to_string(*options.to)));
  }
  const bool drops = options.contents == ParkContents::drop;
  if (drops && options.how.scope == StopScope::attached && !options.how.nothing_runs) {
    throw Error(ErrorKind::unsupported, call,
                "contents can be dropped only under a hold (StopScope::hold)");
  }
  const MutexLock turn(turn_);
  Clock& clock = memory_.driver().clock();
  const TimePoint start = clock.now();
  ParkReport report;
  std::vector<Step> steps = plan_park(tag, options, report);
  make_targets(steps);
  carry_out(steps, options,
            {.requires_guards = false, .gives_back = true, .choice = PlaceChoice::runtime});
  sum_up(steps, report);
  forget_what_is_back(tag);  // Chunks that did not move are still in HBM.
  report.wall = clock.now() - start;
  return report;
}

ParkReport Parker::resume(const std::string& tag, const ParkOptions& options) {
  const MutexLock turn(turn_);
  Clock& clock = memory_.driver().clock();
  const TimePoint start = clock.now();
  ParkReport report;
  std::vector<Step> steps = plan_resume(tag, report);
  ParkOptions whole = options;
  // If there is not enough room, nothing moves, and another place is tried.
  whole.how.reserve_first = true;
  carry_out(steps, whole, {.requires_guards = false, .choice = PlaceChoice::former});
  move_elsewhere(steps, whole, report);
  sum_up(steps, report);
  forget_what_is_back(tag);
  report.wall = clock.now() - start;
  return report;
}

bool Parker::is_parked(const std::string& tag) {
  const MutexLock lock(mutex_);
  forget_freed();
  return parkings_.contains(tag);
}

bool Parker::holds(const Allocation& allocation) {
  const MutexLock lock(mutex_);
  const auto tag = parkings_.find(allocation.tag);
  if (tag == parkings_.end()) return false;
  // Looks only at the allocation's own entry, because listings ask for each allocation in turn.
  const auto found = tag->second.find(allocation.begin());
  if (found == tag->second.end() || allocation.being_freed) return false;
  const Parked& parked = found->second;
  return parked.allocation.lock().get() == &allocation &&
         std::ranges::any_of(parked.homes, [](const auto& home) { return home.has_value(); });
}

std::size_t Parker::parked() {
  const MutexLock lock(mutex_);
  forget_freed();
  std::size_t count = 0;
  for (const auto& [tag, allocations] : parkings_) count += allocations.size();
  return count;
}

Place Parker::wait_place(Place from) const {
  const Topology& topology = memory_.topology();
  const Place near = host(topology.info(DeviceId{from.ordinal}).host_node);
  if (topology.has(near)) return near;
  const auto first = std::ranges::find_if(topology.places(),
                                          [](Place at) { return at.kind == Place::Kind::host; });
  if (first != topology.places().end()) return *first;
  throw Error(ErrorKind::unsupported, "vma::park", "the machine has no host node");
}

std::vector<Parker::Step> Parker::plan_park(const std::string& tag, const ParkOptions& options,
                                            ParkReport& report) {
  std::vector<Step> steps;
  std::map<Address, Parked> found;
  for (const std::shared_ptr<Allocation>& allocation : memory_.registry().all()) {
    if (allocation->tag != tag || allocation->being_freed) continue;
    ++report.allocations;
    Parked& parked = found[allocation->begin()];
    parked.allocation = allocation;
    parked.homes.resize(allocation->geometry().slots);
    const std::vector<std::optional<Place>> before = homes_of(*allocation);
    for (std::size_t slot = 0; slot < parked.homes.size(); ++slot) {
      if (allocation->dropped(slot)) continue;
      const Place at = allocation->place(slot);
      if (in_hbm(at)) parked.homes[slot] = at;
      if (options.contents == ParkContents::drop) {
        const bool goes = in_hbm(at) || before[slot].has_value();
        if (goes) append(steps, Step::Kind::drop, allocation, slot, Place{});
      } else if (in_hbm(at)) {
        append(steps, Step::Kind::move, allocation, slot, options.to.value_or(wait_place(at)));
      }
    }
  }
  if (report.allocations == 0) {
    throw Error(ErrorKind::invalid_argument, "vma::park",
                fmt::format("no allocation has the tag \"{}\"", tag));
  }
  note_homes(tag, std::move(found));
  return steps;
}

std::vector<std::optional<Place>> Parker::homes_of(const Allocation& allocation) {
  std::vector<std::optional<Place>> homes(allocation.geometry().slots);
  const MutexLock lock(mutex_);
  forget_freed();
  const auto tag = parkings_.find(allocation.tag);
  if (tag == parkings_.end()) return homes;
  const auto parked = tag->second.find(allocation.begin());
  return parked == tag->second.end() ? homes : parked->second.homes;
}

/// Called before anything moves, so that homes are known even after a failure.
void Parker::note_homes(const std::string& tag, std::map<Address, Parked> found) {
  const MutexLock lock(mutex_);
  forget_freed();
  std::map<Address, Parked>& known = parkings_[tag];
  for (auto& [begin, parked] : found) {
    const auto before = known.find(begin);
    if (before == known.end()) {
      known.emplace(begin, std::move(parked));
      continue;
    }
    for (std::size_t slot = 0; slot < parked.homes.size(); ++slot) {
      if (parked.homes[slot]) before->second.homes[slot] = parked.homes[slot];
    }
  }
}

std::vector<Parker::Step> Parker::plan_resume(const std::string& tag, ParkReport& report) {
  std::vector<Step> steps;
  const MutexLock lock(mutex_);
  forget_freed();
  const auto known = parkings_.find(tag);
  if (known == parkings_.end()) {
    throw Error(ErrorKind::invalid_argument, "vma::resume",
                fmt::format("nothing is parked under the tag \"{}\"", tag));
  }
  for (const auto& [begin, parked] : known->second) {
    const std::shared_ptr<Allocation> allocation = parked.allocation.lock();
    if (!allocation) continue;
    ++report.allocations;
    for (std::size_t slot = 0; slot < parked.homes.size(); ++slot) {
      if (!parked.homes[slot]) continue;
      if (allocation->dropped(slot)) {
        append(steps, Step::Kind::restore, allocation, slot, *parked.homes[slot]);
      } else if (!in_hbm(allocation->place(slot))) {
        append(steps, Step::Kind::move, allocation, slot, *parked.homes[slot]);
      }
    }
  }
  return steps;
}

/// Allocates all host memory before the first stop, because allocating it takes ten times as long
/// as filling it. Errors are only logged here; the move that needs the memory reports them.
void Parker::make_targets(const std::vector<Step>& steps) {
  std::map<std::pair<Place, std::uint64_t>, std::uint64_t> counts;
  for (const Step& step : steps) {
    if (step.kind != Step::Kind::move || !step.allocation->may_move() ||
        step.allocation->poisoned())
      continue;
    for (std::size_t slot = step.range.first; slot < step.range.end; ++slot) {
      if (memory_.chunks().copies().has(step.allocation->begin(), slot, step.to,
                                        step.allocation->writable_epoch())) {
        continue;  // The clean copy is the target.
      }
      ++counts[{step.to, step.allocation->geometry().slot_bytes(slot)}];
    }
  }
  for (const auto& [chunk, count] : counts) {
    const auto& [at, chunk_bytes] = chunk;
    try {
      memory_.chunks().reserve(at, count * chunk_bytes, chunk_bytes);
    } catch (const Error& error) {
      log(LogLevel::debug, "could not allocate all memory for parking in advance: {}",
          error.what());
    }
  }
}

/// Moves under a hold share one, and moves at gates are submitted together. What is dropped or
/// restored comes before, one step after the other.
void Parker::carry_out(std::vector<Step>& steps, const ParkOptions& options,
                       const MigrationTerms& terms) {
  const char* call = terms.gives_back ? "vma::park" : "vma::resume";
  const bool attached = options.how.scope == StopScope::attached && !options.how.nothing_runs;
  std::vector<Step*> moves;
  for (Step& step : steps) {
    step.full = false;
    attempt(step, [&] {
      // Dropped memory is at no place where a pin could keep it.
      const bool restores = step.kind == Step::Kind::restore;
      const std::string why = step.allocation->why_pinned();
      if (!restores && !why.empty()) throw Error(ErrorKind::pinned, call, "it " + why);
      if (step.kind != Step::Kind::move) return take_step(step, options);
      if (attached && !migrator_.may_stop_for(step.allocation->begin())) {
        throw Error(ErrorKind::invalid_argument, call, Migrator::why_no_stop);
      }
      moves.push_back(&step);
    });
  }
  if (moves.empty()) return;
  std::vector<RequestedRange> ranges;
  for (const Step* step : moves) ranges.push_back({step->allocation, step->range, step->to});
  MigrateOptions how = options.how;
  how.all_or_nothing = false;
  const AwaitedCallbacks progress(migrator_.callbacks(), static_cast<bool>(how.on_progress));
  const auto account =
      GroupAccount::of(memory_.driver().clock(), ranges, std::exchange(how.on_progress, {}));
  if (attached) {
    move_at_gates(moves, ranges, how, terms, account);
  } else {
    move_held(moves, ranges, how, terms, *account);
  }
}

void Parker::move_held(std::span<Step* const> steps, std::span<const RequestedRange> ranges,
                       const MigrateOptions& how, const MigrationTerms& terms,
                       GroupAccount& account) {
  const std::vector<RangeResult> results = migrator_.move_all(ranges, how, terms, account);
  for (std::size_t which = 0; which < steps.size(); ++which) {
    const auto& [report, error] = results[which];
    steps[which]->moved_bytes += report.bytes_moved;
    if (error) note_failure(*steps[which], *error);
  }
}

void Parker::move_at_gates(std::span<Step* const> steps, std::span<const RequestedRange> ranges,
                           const MigrateOptions& how, const MigrationTerms& terms,
                           const std::shared_ptr<GroupAccount>& account) {
  std::vector<NewMigration> migrations;
  for (std::size_t which = 0; which < steps.size(); ++which) {
    migrations.push_back({ranges[which], how, terms, account, std::nullopt});
    migrations.back().options.on_progress = account->progress_of(which);
  }
  std::vector<std::shared_ptr<MigrationTask>> tasks;
  try {
    tasks = migrator_.submit_all(std::move(migrations));
  } catch (const Error& error) {
    for (Step* const step : steps) note_failure(*step, error);
  }
  for (std::size_t which = 0; which < tasks.size(); ++which) {
    Step& step = *steps[which];
    tasks[which]->wait();
    step.moved_bytes += tasks[which]->report().bytes_moved;
    attempt(step, [&] {
      if (const std::exception_ptr failure = tasks[which]->error()) std::rethrow_exception(failure);
    });
  }
}

void Parker::note_failure(Step& step, const Error& error) {
  step.full = error.kind() == ErrorKind::out_of_memory;
  step.reason = error.what();
}

template <typename Body>
void Parker::attempt(Step& step, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    note_failure(step, error);
  }
}

/// Drops or restores on this thread.
void Parker::take_step(Step& step, const ParkOptions& options) {
  Allocation& allocation = *step.allocation;
  const MoveClaim claim = MoveClaim::take(step.allocation);
  try {
    const MigrationReport done =
        step.kind == Step::Kind::drop
            ? migrator_.drop(allocation, step.range, options.how)
            : migrator_.restore(allocation, step.range, step.to, options.zeroed);
    step.moved_bytes += done.bytes_moved;
    if (done.outcome != Outcome::done) step.reason = "it was interrupted";
  } catch (const Error& error) {
    if (error.report() != nullptr) step.moved_bytes += error.report()->bytes_moved;
    throw;
  }
}

/// Whether all users of the step's slots reach `to`.
bool Parker::may_go(const Step& step, Place to) const {
  for (std::size_t slot = step.range.first; slot < step.range.end; ++slot) {
    if (!migrator_.reach().allows(*step.allocation, slot, to)) return false;
  }
  return true;
}

/// If the former GPU of some chunks has no room, moves them to another GPU that has room and that
/// their users reach.
void Parker::move_elsewhere(std::vector<Step>& steps, const ParkOptions& options,
                            ParkReport& report) {
  for (Step& step : steps) {
    for (const DeviceId device : memory_.topology().devices()) {
      const Place other = gpu(index(device));
      if (!step.full || other == step.to) continue;
      if (memory_.chunks().room_bytes(other) < step.size_bytes - step.moved_bytes) continue;
      if (!may_go(step, other)) {
        step.reason += fmt::format(
            "; {} has room, but a GPU that may use the memory cannot reach it", to_string(other));
        continue;
      }
      std::vector<Step> again{step};
      again[0].to = other;
      again[0].reason.clear();
      carry_out(again, options, {.requires_guards = false, .choice = PlaceChoice::runtime});
      report.bytes_elsewhere += again[0].moved_bytes - step.moved_bytes;
      again[0].to = step.to;
      step = again[0];
    }
  }
}

void Parker::sum_up(std::vector<Step>& steps, ParkReport& report) {
  for (const Step& step : steps) {
    report.bytes_moved += step.moved_bytes;
    if (step.kind != Step::Kind::move) report.bytes_dropped += step.moved_bytes;
    if (step.reason.empty()) continue;
    report.stayed.push_back({to_pointer(step.allocation->begin()),
                             step.size_bytes - std::min(step.size_bytes, step.moved_bytes),
                             step.allocation->being_freed ? "it was freed" : step.reason});
  }
}

void Parker::forget_what_is_back(const std::string& tag) {
  const MutexLock lock(mutex_);
  const auto known = parkings_.find(tag);
  if (known == parkings_.end()) return;
  for (auto& [begin, parked] : known->second) {
    const std::shared_ptr<Allocation> allocation = parked.allocation.lock();
    if (!allocation) continue;
    for (std::size_t slot = 0; slot < parked.homes.size(); ++slot) {
      const bool back = in_hbm(allocation->place(slot)) && !allocation->dropped(slot);
      if (back) parked.homes[slot].reset();
    }
  }
  forget_freed();
}

/// Forgets freed allocations, and those without parked chunks.
void Parker::forget_freed() {
  for (auto known = parkings_.begin(); known != parkings_.end();) {
    std::erase_if(known->second, [](const auto& one) {
      const std::shared_ptr<Allocation> allocation = one.second.allocation.lock();
      return !allocation || allocation->being_freed ||
             std::ranges::none_of(one.second.homes,
                                  [](const auto& home) { return home.has_value(); });
    });
    known = known->second.empty() ? parkings_.erase(known) : std::next(known);
  }
}

}  // namespace vma
