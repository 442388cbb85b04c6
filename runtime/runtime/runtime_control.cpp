#include "runtime/runtime_control.hpp"

#include "base/printable.hpp"
#include "control/explained_moves.hpp"
#include "costs/cost_estimates.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "placement/policies/policy_text.hpp"
#include "runtime/argument_checks.hpp"
#include "scheduling/evictions.hpp"
#include "runtime/place_states.hpp"
#include "runtime/runtime_stats.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <utility>

namespace vma {
namespace {

constexpr const char* call_name = "vma::control";

std::string text_of(const DrainReport& report) {
  std::string text = bytes_text(report.bytes_left) + " left";
  for (const auto& [reason, chunks] : report.left) {
    text += fmt::format(", {}: {}", counted(chunks, "chunk"), reason);
  }
  return text;
}

ControlSelection summary_of(std::span<const std::shared_ptr<Allocation>> selected) {
  ControlSelection summary;
  summary.count = selected.size();
  for (const auto& one : selected) {
    summary.bytes += one->size_bytes();
    if (summary.first.size() == ControlSelection::first_max) continue;
    summary.first.push_back({to_integer(one->begin()), one->size_bytes(), one->tag});
  }
  return summary;
}

}  // namespace

/// One `start_move`: one migration for each allocation that it names, of which at most `window` are
/// submitted to the migrator, so that one request blocks neither the socket's thread nor the
/// migrator's queue. Lives until the last has ended.
/// One owner: the fields count the migrations of one request, from the first to the last end.
class RuntimeControl::MoveOperation : public std::enable_shared_from_this<MoveOperation> {
 public:
  MoveOperation(const ControlGround& ground, Clock& clock, Place to, const Allocations& named)
      : migrator_(ground.migrator),
        feed_(ground.feed),
        clock_(clock),
        begin_(clock.now()),
        to_(to),
        named_(named.begin(), named.end()),
        left_(named.size()) {
    for (const auto& one : named) all_bytes_ += one->size_bytes();
    options_.scope = StopScope::attached;
    terms_.operation = feed_->next_operation();
    terms_.choice = PlaceChoice::runtime;  // A peer does not know which GPUs use the memory.
    sum_.operation = terms_.operation;
    sum_.to = to_;
  }

  std::uint64_t number() const noexcept { return terms_.operation; }

  /// None once it has ended.
  std::optional<ControlStatus::Operation> progress() {
    const MutexLock lock(mutex_);
    if (left_ == 0) return std::nullopt;
    return ControlStatus::Operation{terms_.operation, to_, all_bytes_, done_bytes_,
                                    clock_.now() - begin_};
  }

  /// Submits as many as the window allows, all at once, so that they share gates. Any thread.
  void advance() {
    while (true) {
      std::size_t first = 0, count = 0;
      {
        const MutexLock lock(mutex_);
        first = next_;
        count = std::min(named_.size() - next_, window - under_way_);
        next_ += count;
        under_way_ += count;
      }
      if (count == 0) return;
      submit(std::span(named_).subspan(first, count));
    }
  }

 private:
  void submit(std::span<const std::weak_ptr<Allocation>> some) {
    std::vector<std::shared_ptr<MigrationTask>> tasks;
    std::vector<std::weak_ptr<Allocation>> moved;
    try {
      std::vector<NewMigration> migrations;
      for (const std::weak_ptr<Allocation>& one : some) {
        std::shared_ptr<Allocation> allocation = one.lock();
        if (!allocation) continue;
        const SlotRange all{0, allocation->geometry().slots};
        moved.push_back(one);
        migrations.push_back(
            {{std::move(allocation), all, to_}, options_, terms_, nullptr, std::nullopt});
      }
      tasks = migrator_.submit_all(std::move(migrations));
    } catch (const std::exception&) {
      const std::exception_ptr error = std::current_exception();
      give_up_rest();  // The next would fail likewise: a full queue, no memory, or the end.
      for (std::size_t one = 0; one < some.size(); ++one) ended({}, error);
      return;
    }
    for (std::size_t freed = tasks.size(); freed < some.size(); ++freed) ended({}, nullptr);
    for (std::size_t one = 0; one < tasks.size(); ++one) follow(tasks[one], moved[one]);
  }

  void follow(const std::shared_ptr<MigrationTask>& task, std::weak_ptr<Allocation> moved) {
    try {
      task->on_done([operation = shared_from_this(), task, moved = std::move(moved)] {
        // That the program frees memory meanwhile is no failure of the move.
        const auto allocation = moved.lock();
        const bool freed = !allocation || allocation->being_freed;
        operation->ended(task->report(), freed ? nullptr : task->error());
        operation->advance();
      });
    } catch (const std::exception&) {
      ended({}, std::current_exception());
    }
  }

  void give_up_rest() {
    const MutexLock lock(mutex_);
    left_ -= named_.size() - next_;
    next_ = named_.size();
  }

  /// One of them has ended, moved or not.
  void ended(const MigrationReport& report, const std::exception_ptr& error) {
    const MutexLock lock(mutex_);
    --under_way_;
    sum_.bytes += report.bytes_moved;
    done_bytes_ += report.bytes_asked;
    asked_bytes_ += report.bytes_asked;
    asked_chunks_ += report.chunks;
    if (error && sum_.text.empty()) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& failure) {
        sum_.text = failure.what();
      }
      failed_ = true;
    }
    if (--left_ > 0) return;
    sum_.kind = failed_ ? ControlEvent::Kind::operation_failed : ControlEvent::Kind::operation_done;
    if (!failed_) {
      sum_.text = fmt::format("{} were requested: {}", bytes_text(asked_bytes_),
                              counted(static_cast<std::uint64_t>(asked_chunks_), "whole chunk"));
    }
    sum_.at = clock_.now();
    sum_.took = sum_.at - begin_;
    feed_->take_stall(sum_);
    feed_->add(sum_);
  }

  static constexpr std::size_t window = 512;

  Migrator& migrator_;
  const std::shared_ptr<EventFeed> feed_;
  Clock& clock_;
  const TimePoint begin_;
  const Place to_;
  MigrateOptions options_;
  MigrationTerms terms_{.requires_guards = false};  // They have been asked for.
  Mutex mutex_;
  const std::vector<std::weak_ptr<Allocation>> named_;
  std::size_t next_ VMART_GUARDED_BY(mutex_) = 0;
  std::size_t under_way_ VMART_GUARDED_BY(mutex_) = 0;
  std::size_t left_ VMART_GUARDED_BY(mutex_);
  bool failed_ VMART_GUARDED_BY(mutex_) = false;
  std::uint64_t all_bytes_ = 0;  // Constant after construction.
  std::uint64_t done_bytes_ VMART_GUARDED_BY(mutex_) = 0;
  std::uint64_t asked_bytes_ VMART_GUARDED_BY(mutex_) = 0;
  int asked_chunks_ VMART_GUARDED_BY(mutex_) = 0;
  ControlEvent sum_ VMART_GUARDED_BY(mutex_);
};

RuntimeControl::RuntimeControl(ControlGround ground)
    : ground_(std::move(ground)),
      clock_(ground_.driver.clock()),
      opened_(clock_.now()),
      threads_(ground_.driver.executor(), clock_, ground_.feed) {}

RuntimeControl::~RuntimeControl() {
  stop();
}

void RuntimeControl::stop() noexcept {
  stopping_ = true;
  threads_.stop();
}

// --- Where memory is

ControlStatus RuntimeControl::status() {
  ControlStatus status;
  status.description = ground_.driver.description();
  status.uptime = clock_.now() - opened_;
  const SchedulerStats scheduler = ground_.scheduler.stats();
  status.policy = scheduler.policy;
  status.held = scheduler.moves_held;
  status.paused = scheduler.paused;
  status.ticks = scheduler.ticks;
  const MigrationWorkers::Load load = ground_.migrator.load();
  status.moves_running = load.running;
  status.moves_queued = load.waiting;
  status.allocations = ground_.memory.registry().size();
  status.backing_bytes = ground_.backings.size_bytes();
  status.passed_bytes = ground_.backings.passed_bytes();
  const std::vector<Place> closed = ground_.scheduler.closed_places();
  for (const PlaceState& place : ground_.scheduler.places()) {
    const bool is_closed = std::ranges::find(closed, place.place) != closed.end();
    // What was asked for, which the runtime's own memory counts towards; the scheduler's is less.
    const std::uint64_t asked =
        ground_.memory.chunks().ledger().account(place.place).capacity_bytes;
    const std::uint64_t there = ground_.memory.topology().memory_bytes(place.place);
    const bool limited = asked != UINT64_MAX && !is_closed && (there == 0 || asked < there);
    status.places.push_back({place.place, limited ? asked : place.capacity_bytes, place.used_bytes,
                             place.demand_bytes_s, is_closed});
  }
  std::erase_if(operations_, [&](const std::weak_ptr<MoveOperation>& each) {
    const auto operation = each.lock();
    const auto progress = operation ? operation->progress() : std::nullopt;
    if (progress) status.operations.push_back(*progress);
    return !progress;
  });
  return status;
}

ControlAllocation RuntimeControl::describe(const std::shared_ptr<Allocation>& allocation) const {
  AllocationInfo info = allocation_info(*allocation, ground_.parker);
  ControlAllocation described;
  described.address = to_integer(allocation->begin());
  described.bytes = info.bytes;
  described.chunk_bytes = info.chunk_bytes;
  described.tag = std::move(info.tag);
  described.site = allocation->site;
  described.movable = info.movable;
  described.parked = info.parked;
  described.extents = std::move(info.extents);
  for (const Extent& extent : described.extents) {
    std::size_t& bytes = extent.dropped ? described.dropped_bytes : described.bytes_at[extent.at];
    bytes += extent.bytes;
  }
  return described;
}

RuntimeControl::Allocations RuntimeControl::listed() const {
  Allocations all = ground_.memory.registry().all();
  std::erase_if(all, [](const auto& one) { return one->being_freed.load(); });
  std::ranges::sort(all, {}, [](const auto& one) { return one->begin(); });
  return all;
}

std::vector<ControlAllocation> RuntimeControl::page_of(const Allocations& all, std::uint64_t from,
                                                       std::size_t most) const {
  const auto begin = std::ranges::lower_bound(
      all, from, {}, [](const auto& one) { return to_integer(one->begin()); });
  std::vector<ControlAllocation> page;
  for (auto each = begin; each != all.end() && page.size() < most; ++each) {
    page.push_back(describe(*each));
    page.back().extents.clear();
  }
  return page;
}

std::vector<ControlAllocation> RuntimeControl::allocations(std::uint64_t from, std::size_t most) {
  return page_of(listed(), from, most);
}

RuntimeControl::Allocations RuntimeControl::selected_by(const std::vector<Selector>& what) const {
  for (const Selector& selector : what) {
    if (selector.kind == Selector::Kind::at) {
      ground_.memory.topology().require(selector.at, call_name);
    }
  }
  const Allocations all = listed();
  std::vector<Selectable> seen;
  for (const auto& one : all) {
    seen.push_back(
        {to_integer(one->begin()), one->size_bytes(), one->sequence, one->tag, one->site});
  }
  const auto has_chunk_at = [&all](std::size_t which, Place at) {
    return std::ranges::any_of(all[which]->extents(), [at](const Extent& extent) {
      return extent.at == at && !extent.dropped;
    });
  };
  Allocations selected;
  for (const std::size_t which : resolve(what, seen, has_chunk_at, call_name)) {
    selected.push_back(all[which]);
  }
  return selected;
}

ControlPage RuntimeControl::select(const std::vector<Selector>& what, std::uint64_t from,
                                   std::size_t most) {
  const Allocations selected = selected_by(what);
  ControlPage page{summary_of(selected), page_of(selected, from, most), false};
  page.more = !page.allocations.empty() &&
              page.allocations.back().address < to_integer(selected.back()->begin());
  return page;
}

ControlAllocation RuntimeControl::allocation(std::uint64_t address) {
  return describe(ground_.memory.require_around(to_pointer(Address{address}), call_name));
}

// --- Moves

/// The sum over the chunks; the migrator copies a chunk beside the stop for the one before it, and
/// moves several allocations at once, so it may finish sooner.
ControlPrediction RuntimeControl::predict(const ControlMove& move) {
  const Topology& topology = ground_.memory.topology();
  topology.require(move.to, call_name);
  const Allocations selected = selected_by(move.what);
  const PlaceId to = place_of(topology, move.to);
  ControlPrediction prediction;
  prediction.selected = summary_of(selected);
  for (const auto& allocation : selected) {
    for (std::size_t slot = 0; slot < allocation->geometry().slots; ++slot) {
      const Place home = allocation->place(slot);
      if (home == move.to || allocation->dropped(slot)) continue;
      const PlaceId from = place_of(topology, home);
      const std::uint64_t bytes = allocation->geometry().slot_bytes(slot);
      const Time took = ground_.costs.move_time(from, to, bytes);
      if (took == Time::max()) {
        throw Error(ErrorKind::unsupported, call_name,
                    fmt::format("the cost of a move from {} to {} is unknown", to_string(home),
                                to_string(move.to)));
      }
      ++prediction.chunks;
      prediction.bytes += bytes;
      prediction.took += took;
      prediction.stall += ground_.costs.stall_time(from, to, bytes);
    }
  }
  const std::uint64_t room = ground_.memory.chunks().room_bytes(move.to);
  prediction.bytes_no_room = prediction.bytes > room ? prediction.bytes - room : 0;
  return prediction;
}

ControlStarted RuntimeControl::start_move(const ControlMove& move) {
  ground_.memory.topology().require(move.to, call_name);
  Allocations selected = selected_by(move.what);
  MigrateOptions options;
  options.scope = StopScope::attached;
  // What the program frees meanwhile is left out, unless it is all that was named.
  std::erase_if(selected, [&](const std::shared_ptr<Allocation>& allocation) {
    try {
      check_background_move(*allocation, ground_.migrator, options, call_name);
      return false;
    } catch (const Error&) {
      if (selected.size() == 1 || !allocation->being_freed) throw;
      return true;
    }
  });
  if (selected.empty()) {
    throw Error(ErrorKind::invalid_argument, call_name,
                "the program has freed all that the request selected; select again");
  }
  const auto operation = std::make_shared<MoveOperation>(ground_, clock_, move.to, selected);
  // A client may never ask for the status, which also drops those that have ended.
  std::erase_if(operations_, [](const auto& each) { return each.expired(); });
  operations_.push_back(operation);
  operation->advance();
  return {operation->number(), summary_of(selected)};
}

void RuntimeControl::require_running() const {
  if (!ground_.scheduler.stats().paused) return;
  throw Error(ErrorKind::busy, call_name,
              "the scheduler is paused, so nothing can move; resume it first");
}

std::uint64_t RuntimeControl::start_drain(Place at) {
  ground_.memory.topology().require(at, call_name);
  require_running();
  const bool fresh = drained_.insert(at).second;
  try {
    return threads_.start("vmart drain", at, [this, at](ControlEvent& event) {
      const DrainReport report = ground_.scheduler.drain_place(at, {});
      event.bytes = report.bytes_moved;
      if (report.bytes_left == 0) return true;
      event.text = fmt::format("{}; {} accepts no memory until `vmart resume`", text_of(report),
                               to_string(at));
      return false;
    });
  } catch (...) {
    if (fresh) drained_.erase(at);
    throw;
  }
}

std::uint64_t RuntimeControl::start_capacity(Place at, std::uint64_t bytes) {
  ground_.memory.topology().require(at, call_name);
  check_capacity(ground_.memory.topology(), at, bytes, call_name);
  require_running();
  return threads_.start("vmart capacity", at, [this, at, bytes](ControlEvent& event) {
    ground_.memory.chunks().set_capacity(at, bytes);
    tell_capacities(ground_.driver, ground_.memory, ground_.scheduler);
    const EvictionReport report =
        evict_above_capacity(ground_.memory, ground_.scheduler, at,
                             [this] { return !stopping_ && !ground_.scheduler.stats().paused; });
    event.bytes = report.bytes_released;
    event.text =
        fmt::format("{} {}; {}", to_string(at),
                    bytes == UINT64_MAX ? "has no limit" : "is limited to " + bytes_text(bytes),
                    text_of(report, at));
    return report.bytes_over == 0;
  });
}

// --- The scheduler

std::vector<std::string> RuntimeControl::known_policies() {
  const std::vector<std::string_view> names = built_in_policies().names();
  return {names.begin(), names.end()};
}

void RuntimeControl::set_policy(const std::string& text) {
  if (const std::string path = split_policy_text(text).path;
      !path.empty() && !ground_.may_load_libraries) {
    throw Error(ErrorKind::not_permitted, "vma::control",
                fmt::format("{} is a library, whose code would run in the program; start the "
                            "program with VMART_CONTROL_LIBRARIES=1 to allow that",
                            path));
  }
  ground_.scheduler.set_policy(text);
}

void RuntimeControl::pause() {
  ground_.scheduler.pause();
}

void RuntimeControl::resume() {
  for (const Place at : std::exchange(drained_, {})) ground_.scheduler.refill(at);
  ground_.scheduler.resume();
}

std::uint64_t RuntimeControl::start_step() {
  if (!ground_.scheduler.stats().paused) {
    throw Error(ErrorKind::invalid_argument, call_name,
                "the scheduler is running; pause it before stepping");
  }
  ControlEvent event;
  event.kind = ControlEvent::Kind::stepped;
  event.operation = ground_.feed->next_operation();
  const TimePoint begin = clock_.now();
  ground_.scheduler.step();
  event.at = clock_.now();
  event.took = event.at - begin;
  ground_.feed->add(event);
  return event.operation;
}

// --- What has happened

std::vector<ControlDecision> RuntimeControl::explain(std::uint64_t address, std::size_t most) {
  const auto allocation = ground_.memory.require_around(to_pointer(Address{address}), call_name);
  const std::uint64_t chunk_bytes = allocation->geometry().chunk_bytes;
  std::optional<std::uint32_t> slot;
  if (const std::uint64_t offset = Address{address} - allocation->begin(); offset > 0) {
    slot = static_cast<std::uint32_t>(offset / chunk_bytes);
  }
  return explained_moves(ground_.scheduler.decisions_about(allocation->begin(), slot), chunk_bytes,
                         most);
}

std::vector<std::string> RuntimeControl::explain_now(std::uint64_t address) {
  return ground_.scheduler.explain(Address{address});
}

ControlEvents RuntimeControl::events(std::uint64_t since, std::size_t most) {
  return ground_.feed->ring().since(since, most);
}

ControlStats RuntimeControl::stats() {
  return {runtime_stats(ground_.memory, ground_.migrator, ground_.parker, ground_.monitor),
          scheduler_stats(ground_.scheduler, *ground_.feed)};
}

}  // namespace vma
