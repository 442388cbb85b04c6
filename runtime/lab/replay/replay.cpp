#include "lab/replay/replay.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

/// Ticks are skipped while nothing happens: immediately when idle, otherwise after half of
/// `quiet_max`. Ticking resumes half of it before the next event. So an access that takes half a
/// year costs no more than one that takes a minute.
constexpr std::chrono::seconds quiet_max(60);

}  // namespace

Replay::Replay(const ReplayMachine& machine, const ReplayOptions& options,
               std::unique_ptr<Policy> policy, std::unique_ptr<Router> router)
    : machine_(machine),
      options_(options),
      scheduler_(machine.places, machine.costs, options.scheduler, std::move(policy)),
      traffic_(machine.links),
      moves_(machine, traffic_, options.stall_budget),
      router_(std::move(router)),
      devices_(machine.costs.gpus()),
      loads_(machine.costs.gpus()),
      carried_(machine.links.size()),
      windows_(options.window) {
  ReplayDevice device;
  device.bytes_by_place.resize(machine.costs.places());
  report_.devices.assign(machine.costs.gpus(), device);
  for (const PlaceState& place : machine.places)
    report_.places.push_back(to_string(place.location));
}

/// What happens at the same time happens in this order: flows end, gates open and copies begin,
/// the scheduler looks at what was used, it ticks, the trace goes on.
ReplayReport Replay::run(TraceSource& source) {
  source_ = &source;
  if (!read_head())
    throw Error(ErrorKind::invalid_argument, "Replay::run", "the trace has no events");
  now_ = batch_[head_].time;
  report_.begin = report_.end = now_;
  windows_.begin(now_);
  scheduler_.set_now(now_);
  Time drain = Time::max(), tick = now_ + options_.tick, happened = now_;
  admit();
  while (more_ || busy()) {
    if (scheduler_.has_uses() && drain == Time::max()) drain = now_ + options_.drain;
    const Time soon =
        std::min({traffic_.next_end(), moves_.next(), drain, next_admission(), next_begin()});
    if (soon == Time::max() && traffic_.size() > 0)
      throw Error(ErrorKind::invalid_argument, "Replay::run", "an access never ends");
    const bool idle = !busy() && scheduler_.under_way() == 0;
    const bool quiet = idle || tick - happened > quiet_max / 2;
    if (quiet && soon < Time::max() && soon - tick > quiet_max) tick = soon - quiet_max / 2;
    now_ = std::min(soon, tick);
    if (now_ == soon) happened = now_;
    scheduler_.set_now(now_);
    if (windows_.over(now_)) windows_.pass(now_, scheduler_.resident_bytes());
    while (traffic_.next_end() <= now_) end_flow();
    end_moves();
    begin_due();
    if (drain <= now_) {
      drain = Time::max();
      if (scheduler_.has_uses()) scheduler_.drain();
      start_moves();
    }
    if (tick <= now_) {
      tick += options_.tick;
      scheduler_.tick();
      start_moves();
    }
    admit();
  }
  finish();
  return std::move(report_);
}

bool Replay::busy() const {
  return std::ranges::any_of(devices_, &has_work);
}

// --- The moves

void Replay::start_moves() {
  for (AcceptedMove& move : scheduler_.take_ready()) {
    ++objects_.at(objects_.owner(move.chunk)).pins;
    moves_.start(std::move(move), now_);
  }
}

void Replay::end_moves() {
  bool opened = false;
  for (const ReplayMoves::Ended& ended : moves_.advance(now_)) {
    scheduler_.end(ended.move, true, now_ - ended.began, ended.stall);
    note_move(ended);
    unpin(objects_.owner(ended.move.chunk));  // It may be the last that its object waited for.
    opened = room_changed_ = true;
  }
  if (!opened) return shut_gate();  // It may be time for the next.
  open_devices();
  start_moves();  // Room has come free.
}

/// All go on; and then the next gate may shut, behind what each has just begun.
void Replay::open_devices() {
  std::vector<std::list<Running>::iterator> go_on;
  for (auto running = running_.begin(); running != running_.end(); ++running)
    if (!running->flow) go_on.push_back(running);
  begin_segments(go_on);
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    if (const auto since = std::exchange(devices_[device].stands, std::nullopt))
      report_.devices[device].stood += now_ - *since;
    begin_next(device);
  }
  shut_gate();
}

/// What is spread is many kernels, and stands at once; what is one kernel is waited for.
void Replay::shut_gate() {
  if (!moves_.wants_gate(now_)) return;
  std::vector<FlowId> stopped;
  for (const Running& running : running_)
    if (running.access.spread()) stopped.push_back(*running.flow);
  const std::span<const double> left = traffic_.end(stopped, now_);
  for (std::size_t i = 0; i < stopped.size(); ++i) {
    Running& running = *by_flow_[static_cast<std::size_t>(stopped[i])];
    running.left = left[i];
    running.flow.reset();
  }
  std::size_t kernels = 0;
  for (Device& device : devices_) {
    device.before_gate = launched(device);
    const bool runs = device.kernels > 0 || device.before_gate > 0;
    kernels += runs ? 1 : 0;
    if (!runs && has_work(device)) device.stands = now_;
  }
  moves_.close(kernels, now_);
}

// --- The report

void Replay::note_move(const ReplayMoves::Ended& ended) {
  const AcceptedMove& move = ended.move;
  ++report_.moves;
  report_.bytes_moved += move.bytes;
  report_.move_s += in_seconds(machine_.costs.move_time(move.from, move.to, move.bytes));
  windows_.current().bytes_moved += move.bytes;
  report_.stall += ended.stall;
  report_.skew += ended.skew;
  report_.bytes_by_route[fmt::format("{}>{}", report_.places[index(move.from)],
                                     report_.places[index(move.to)])] += move.bytes;
  const auto before = came_from_.find(move.chunk);
  if (before != came_from_.end() && before->second.first == move.to &&
      now_ - before->second.second <= options_.scheduler.planner.thrash_window) {
    ++report_.thrashes;
  }
  came_from_[move.chunk] = {move.from, now_};
}

/// Nothing runs, and nothing may again: moves that come now carry what no access waits for.
void Replay::note_links() {
  for (std::size_t link = 0; link < carried_.size(); ++link)
    carried_[link] = traffic_.carried(static_cast<LinkId>(link));
}

void Replay::finish() {
  const ReplayScheduler::Counters& counters = scheduler_.counters();
  report_.moves_wanted = counters.moves_wanted;
  report_.moves_refused = counters.moves_refused;
  report_.policy_failures = counters.policy_failures;
  report_.ticks = counters.ticks;
  for (std::size_t place = 0; place < report_.places.size(); ++place) {
    double& bytes = report_.bytes_by_place[report_.places[place]];
    for (const ReplayDevice& device : report_.devices) bytes += device.bytes_by_place[place];
  }
  for (std::size_t link = 0; link < carried_.size(); ++link)
    report_.bytes_by_link[machine_.links.name(static_cast<LinkId>(link))] = carried_[link];
  report_.window = windows_.length();
  report_.windows = windows_.take(scheduler_.resident_bytes());
}

}  // namespace vma
