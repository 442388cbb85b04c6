#include "migrate/live/program_stop.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// A copy under a gate may take this many times the link's nominal time, for other traffic.
constexpr int copy_patience = 8;
/// Enough for 256 MiB through a host link; more only delays the next try.
constexpr double slowest_link_bytes_per_s = 20e9;

/// A program may attach and detach streams faster than gates close. After this many tries that were
/// given up for it, both wait for the next try, which waits for the streams no longer than this.
constexpr int yields_max = 2;
constexpr std::chrono::milliseconds insisting_limit(250);

/// A stop that arrives this much later than the backlogs predict waits behind something that waits
/// for the settling work. Not yet if the program has merely become slower by some times, as while
/// the memory that it uses moves away from it.
constexpr std::chrono::milliseconds overdue_limit(250);
constexpr int overdue_backlogs = 16;

std::chrono::nanoseconds copy_limit(std::uint64_t size_bytes) {
  const double seconds = static_cast<double>(size_bytes) / slowest_link_bytes_per_s;
  return copy_patience * std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::duration<double>(seconds));
}

std::vector<Address> begins_of(const LiveBatch& batch) {
  std::vector<Address> allocations;
  for_each_range(batch,
                 [&](const LiveRange& range) { allocations.push_back(range.allocation.begin()); });
  return allocations;
}

}  // namespace

// --- The process

std::optional<StopRefusal> WholeStop::suspend(std::chrono::nanoseconds patience,
                                              std::chrono::nanoseconds limit) {
  Driver& driver = parts_.memory.driver();
  suspension_.emplace(driver, parts_.stops.watchdog(), parts_.memory.topology().devices(),
                      patience);
  if (auto refusal = parts_.stops.close(*suspension_, driver.clock().now() + limit)) {
    suspension_.reset();
    return refusal;
  }
  times_.first_arrival = times_.last_arrival = suspension_->begun();
  off_took_ = driver.clock().now() - suspension_->begun();
  stopped_ = &*suspension_;
  return std::nullopt;
}

std::optional<StopRefusal> WholeStop::hold(HoldPost& post, std::chrono::nanoseconds patience,
                                           std::chrono::nanoseconds limit) {
  Driver& driver = parts_.memory.driver();
  hold_.emplace(driver, parts_.memory.contexts(), post, parts_.stops.watchdog(), patience);
  if (auto refusal = parts_.stops.close(*hold_, driver.clock().now() + limit)) {
    hold_.reset();
    return refusal;
  }
  times_.first_arrival = times_.last_arrival = driver.clock().now();
  stopped_ = &*hold_;
  return std::nullopt;
}

bool WholeStop::commit() {
  try {
    stopped_->begin_dark();
    is_dark_ = true;
    return true;
  } catch (const Error&) {
    return false;
  }
}

void WholeStop::open() noexcept {
  if (std::exchange(is_dark_, false)) stopped_->end_dark();
  const Clock& clock = parts_.memory.driver().clock();
  const TimePoint begun = clock.now();
  if (suspension_) suspension_->open();
  if (hold_) hold_->open();
  if (std::exchange(stopped_, nullptr) != nullptr) {
    times_.opened = clock.now();
    if (suspension_) parts_.forecast.note_suspended({off_took_, times_.opened - begun});
  }
  suspension_.reset();
  hold_.reset();
}

std::optional<TimePoint> WholeStop::suspended_at() const {
  return suspension_ ? std::optional(suspension_->begun()) : std::nullopt;
}

// --- What the batch wants

ProgramStop::ProgramStop(MigrationParts& parts, const LiveRanges& ranges, LiveBatch& batch,
                         bool settles, Stops::Turn& turn, std::function<void()> opened_late)
    : parts_(parts),
      ranges_(ranges),
      batch_(batch),
      turn_(turn),
      post_(turn.gate_post()),
      stop_(batch.stop()),
      settles_(settles),
      insists_(batch.yields >= yields_max),
      streams_(parts.stops.attached(), parts.memory.topology(), begins_of(batch)),
      slow_call_turn_(parts.memory.chunks().slow_calls().turn()),
      gate_(parts.memory.driver(), post_, std::move(opened_late)),
      whole_(parts) {}

bool ProgramStop::given_up() const noexcept {
  return (streams_.wanted() && !insists_) || ranges_.any_unwanted();
}

GateLimits ProgramStop::limits() {
  GateLimits limits;
  // A collective that the gate has cut in two is stopped until it opens: the first tries find that
  // out sooner, and only the last ones use a limit that was widened.
  constexpr int halvings = 2;
  constexpr int tries_patient = 5;
  const std::chrono::nanoseconds first_limit = parts_.limits.gate_limit;
  limits.arrival_limit = batch_.gate_limit;
  limits.arrival_limit_min = batch_.tries < tries_patient
                                 ? first_limit / (1 << std::max(0, halvings - batch_.tries))
                                 : std::max(first_limit, batch_.gate_limit / 2);
  // Nothing is stopped until the first stream arrives, but other moves wait for this try.
  limits.wait_limit =
      insists_ ? insisting_limit : batch_.deadline - parts_.memory.driver().clock().now();
  const bool others_wait = parts_.stops.waiting().any();
  limits.look_limit = std::min<std::chrono::nanoseconds>(
      limits.wait_limit, others_wait ? LiveBatch::turn_limit_min : batch_.turn_limit());
  if (batch_.front().choice.gives_way) {
    limits.arrival_limit = limits.wait_limit = limits.look_limit = Stops::soon;
  }
  limits.turn = &slow_call_turn_;
  limits.given_up = [this] { return given_up(); };
  limits.skew_limit = batch_.gate_limit;
  limits.settle_limit = batch_.gate_limit;
  limits.tells_ahead = batch_.blocked;
  // Others may wait for the settling work, which by then waits in the application's context.
  if (settles_ && batch_.way() == Way::live) {
    limits.overdue_limit = overdue_limit + overdue_backlogs * deepest_backlog();
  }
  if (batch_.way() == Way::stopped) {
    limits.settle_limit += copy_limit(batch_.front().transaction.size_bytes());
  }
  return limits;
}

/// As last observed, or deeper by as much as that varies. Requires: the post is prepared for the
/// plan.
std::chrono::nanoseconds ProgramStop::deepest_backlog() const {
  std::chrono::nanoseconds deepest(0);
  for (const GateStop& stop : streams_.plan().stops) {
    deepest = std::max(deepest, post_.state_of(stop).backlog.reach());
  }
  return deepest;
}

/// However long the move may take: nothing waits longer than this.
std::chrono::nanoseconds ProgramStop::patience() {
  constexpr std::chrono::seconds least(6);
  const GateLimits all = limits();
  return least + (1 + overdue_backlogs) * deepest_backlog() + all.arrival_limit + all.settle_limit;
}

/// With one stream only if it was late before.
std::optional<StopRefusal> ProgramStop::look() {
  take_turn();  // For the words of streams that were not stopped before.
  if (insists_) streams_.keep();
  streams_.name();
  const GatePlan& plan = streams_.plan();
  if (plan.stops.empty() || (plan.stops.size() == 1 && !batch_.overdue)) return std::nullopt;
  post_.prepare(plan);
  GateLimits looking = limits();
  // Kept, since it is short: `attaching` is held, and is taken after the turn everywhere.
  if (insists_) looking.turn = nullptr;
  return gate_.look(plan, looking);
}

std::optional<StopRefusal> ProgramStop::plan() {
  if (!at_gate()) {
    gpus_ = parts_.stops.users(batch_.front().range.allocation.begin(), true);
    return std::nullopt;
  }
  if (insists_) streams_.keep();
  streams_.name();
  if (auto refusal = streams_.require_any()) return refusal;
  gpus_ = streams_.gpus();
  post_.prepare(streams_.plan());
  post_.prune();
  return std::nullopt;
}

std::optional<StopRefusal> ProgramStop::send() {
  return at_gate() ? gate_.send(streams_.plan(), limits()) : std::nullopt;
}

std::optional<StopRefusal> ProgramStop::close() {
  if (at_gate()) return gate_.close();
  if (stop_ == StopKind::suspension)
    return whole_.suspend(limits().settle_limit, batch_.gate_limit);
  const LiveChunk& first = batch_.front();
  const BoundStream stream =
      parts_.engine.spare_stream(first.transaction.from(), first.range.task->to, CopyUnder::hold);
  HoldPost& post = turn_.hold_post(stream);  // Before the limits: it may wait for the context.
  const GateLimits all = limits();
  return whole_.hold(post, all.settle_limit, all.look_limit);
}

std::optional<StopRefusal> ProgramStop::require_same() {
  return at_gate() ? streams_.require_same() : std::nullopt;
}

void ProgramStop::let_go() noexcept {
  slow_call_turn_.let_go();
  streams_.let_go();
}

}  // namespace vma
