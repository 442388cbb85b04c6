#include "runtime/scheduling.hpp"

#include "placement/policies/built_in_policies.hpp"
#include "runtime/place_states.hpp"
#include "runtime/runtime_stats.hpp"
#include "scheduling/policy_library.hpp"

#include "base/log.hpp"

#include <chrono>
#include <utility>

namespace vma {
namespace {

std::unique_ptr<Recording> open_recording(Driver& driver, Memory& memory,
                                          const SourcedCosts& sourced, const Settings& settings) {
  if (settings.record.empty()) return nullptr;
  RecordingHeader header;
  const auto utc = std::chrono::system_clock::now().time_since_epoch();
  header.clock_start_utc_ns = static_cast<std::uint64_t>(
      (std::chrono::duration_cast<std::chrono::nanoseconds>(utc) - driver.clock().now()).count());
  header.machine = driver.description();
  header.places = place_states(driver, memory.topology(), memory.chunks().ledger());
  header.costs = sourced.costs;
  header.gaps = sourced.gaps;
  header.peers = sourced.peers;
  header.scheduler = {
      settings.policy,       settings.half_life,  settings.collect_every,     settings.tick,
      settings.stall_budget, settings.gate_limit, settings.copy_budget_bytes, settings.stall_ahead,
      settings.max_stall};
  return std::make_unique<Recording>(driver.executor(), RecordingOptions{settings.record},
                                     std::move(header));
}

PolicyMaker maker_of(const Settings& settings) {
  return [known = known_policies(settings.policies)](const std::string& text) {
    return load_policy(text, known);
  };
}

SchedulerLimits limits_of(const Settings& settings) {
  SchedulerLimits limits;
  limits.dry_run = settings.dry_run;
  limits.policy_limit = settings.policy_limit;
  limits.heat.half_life_short = settings.half_life;
  limits.heat.half_life_long = settings.half_life * 10;
  const auto budget = std::chrono::duration<double>(settings.stall_budget).count();
  limits.planner.stall_share = budget;
  if (budget > 0) limits.planner.stall_burst = settings.stall_budget;
  limits.planner.stall_ahead = settings.stall_ahead;
  limits.pace.watches = settings.pace_guard;
  limits.planner.route_bytes_s = static_cast<double>(settings.copy_budget_bytes);
  return limits;
}

}  // namespace

Scheduling::Scheduling(Driver& driver, Memory& memory, Backings& backings, Migrator& migrator,
                       Parker& parker, UseLog& uses, const SourcedCosts& sourced,
                       GpuMonitor& monitor, const Settings& settings)
    : driver_(driver),
      migrator_(migrator),
      trace_(open_trace(driver.executor(), settings.timeline)),
      feed_(std::make_shared<EventFeed>(memory.registry(), trace_ ? &trace_->trace() : nullptr)),
      decisions_(driver.executor(), DecisionLogOptions{settings.decisions}),
      recording_(open_recording(driver, memory, sourced, settings)),
      scheduler_({driver, memory, migrator, uses, decisions_, recording_.get(),
                  [feed = feed_](const Decision& decision) { feed->decided(decision); }},
                 place_states(driver, memory.topology(), memory.chunks().ledger()), sourced.costs,
                 limits_of(settings), maker_of(settings), settings.policy),
      control_({driver, memory, backings, migrator, parker, sourced.costs, scheduler_, monitor,
                feed_, settings.control_libraries}) {
  uses.timestamps(recording_ != nullptr);
  SchedulerInbox* const inbox = recording_ == nullptr ? nullptr : &scheduler_.inbox();
  migrator.watch_chunks([feed = feed_, inbox](const ChunkStep& step) {
    feed->moved_on(step);
    if (inbox != nullptr) inbox->stepped(step);
  });
  if (!settings.stepped_by_hand) begin_loop(settings);
}

Scheduling::~Scheduling() {
  stop_accepting();
  let_go();
}

/// The socket is opened before the loop's thread runs.
void Scheduling::begin_loop(const Settings& settings) {
  loop_ =
      std::make_unique<SchedulerLoop>(driver_, scheduler_, settings.collect_every, settings.tick);
  server_ = open_control(loop_->context(), control_, settings.control.c_str());
  loop_->start([this] { flush_trace_now_and_then(); });
}

void Scheduling::flush_trace_now_and_then() noexcept {
  constexpr std::chrono::seconds period(1);
  if (!trace_ || wall_clock_.now() - flushed_ < period) return;
  flushed_ = wall_clock_.now();
  trace_->flush_soon();
}

SchedulerStats Scheduling::stats() const {
  return scheduler_stats(scheduler_, *feed_);
}

std::string Scheduling::control_path() const {
  return server_ ? server_->path() : "";
}

/// The scheduler first, so that neither the loop nor a drain waits any more; the server once no
/// thread runs its context, and before what it calls.
void Scheduling::stop_accepting() noexcept {
  scheduler_.stop();
  if (loop_) loop_->stop();
  server_.reset();
  control_.stop();
}

/// Writes now, since the process may end while memory is given back. What is slow is written until
/// the destructor has ended.
void Scheduling::release() noexcept {
  let_go();
  write_out();
}

void Scheduling::let_go() noexcept {
  scheduler_.let_go();
  migrator_.watch_chunks({});
}

/// Once closed, the scheduler adds nothing more, and `PerfettoWriter` writes nothing more: so no
/// file is being written when the process ends, unless a disk or a pipe is too slow.
void Scheduling::finish_output() noexcept {
  constexpr std::chrono::seconds scheduler_limit(1);
  if (server_) server_->remove_path();
  if (!scheduler_.close_within(scheduler_limit)) {
    log(LogLevel::warn, "the process exits while the scheduler is busy; its last uses are lost");
  }
  const Written written = write_out();
  if (!written.recording)
    log(LogLevel::warn, "VMART_RECORD: the disk is too slow; the end of the recording is lost");
  if (!written.decisions)
    log(LogLevel::warn, "VMART_DECISIONS: the file is too slow; the last decisions are lost");
}

Scheduling::Written Scheduling::write_out() noexcept {
  constexpr std::chrono::seconds write_limit(2);  // For all files together.
  const TimePoint deadline = wall_clock_.now() + write_limit;
  const Written written{!recording_ || recording_->write_all(deadline),
                        decisions_.write_all(deadline)};
  if (trace_) trace_->trace().flush();
  return written;
}

}  // namespace vma
