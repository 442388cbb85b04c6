#include "lab/replay.hpp"

#include "driver/driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {

Replay::Replay(const ReplayMachine& machine, const ReplayOptions& options,
               std::unique_ptr<Policy> policy, std::unique_ptr<Router> router)
    : machine_(machine),
      options_(options),
      scheduler_(machine.places, machine.costs, options.scheduler, std::move(policy)),
      traffic_(machine.links),
      moves_(machine.links, traffic_, machine.costs),
      router_(std::move(router)),
      devices_(machine.costs.gpus()),
      loads_(machine.costs.gpus()),
      place_bytes_(machine.costs.places()) {
  report_.devices.resize(machine.costs.gpus());
  report_.window = options.window;
}

/// What happens at the same time happens in this order: flows end, gates open and copies begin,
/// the scheduler looks at what was used, it ticks, the trace goes on.
ReplayReport Replay::run(TraceSource& source) {
  source_ = &source;
  if (read_head()) now_ = batch_[head_].time;
  report_.begin = report_.end = now_;
  scheduler_.set_now(now_);
  Time drain = Time::max(), tick = now_ + options_.tick;
  admit();
  while (more_ || busy()) {
    if (scheduler_.has_uses() && drain == Time::max()) drain = now_ + options_.drain;
    now_ = std::min({traffic_.next_end(), moves_.next(), drain, tick, next_admission()});
    scheduler_.set_now(now_);
    while (traffic_.next_end() <= now_) end_flow();
    end_moves();
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
  finish(report_);
  return std::move(report_);
}

bool Replay::busy() const {
  return std::ranges::any_of(
      devices_, [](const Device& device) { return device.running || !device.queue.empty(); });
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
    const AcceptedMove& move = ended.move;
    scheduler_.end(move, true, now_ - ended.began, ended.stall);
    unpin(objects_.owner(move.chunk));
    ++report_.moves;
    report_.bytes_moved += move.bytes;
    window().bytes_moved += move.bytes;
    report_.stall += ended.stall;
    report_.skew += ended.skew;
    report_
        .bytes_by_route[fmt::format("{}>{}", to_string(machine_.places[index(move.from)].location),
                                    to_string(machine_.places[index(move.to)].location))] +=
        move.bytes;
    const auto before = came_from_.find(move.chunk);
    if (before != came_from_.end() && before->second.first == move.to &&
        now_ - before->second.second <= options_.scheduler.planner.thrash_window) {
      ++report_.thrashes;
    }
    came_from_[move.chunk] = {move.from, now_};
    opened = true;
  }
  if (!opened) return;
  open_devices();
  start_moves();  // Room has come free.
}

/// All go on; and then the next gate may shut, behind what each has just begun.
void Replay::open_devices() {
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    if (const auto since = std::exchange(devices_[device].stands, std::nullopt))
      report_.devices[device].stood += now_ - *since;
    begin_next(device);
  }
  shut_gate();
}

void Replay::shut_gate() {
  if (!moves_.wants_gate()) return;
  const auto running = std::ranges::count_if(
      devices_, [](const Device& device) { return device.running.has_value(); });
  moves_.close(static_cast<std::size_t>(running), now_);
  for (Device& device : devices_)
    if (!device.running && !device.queue.empty()) device.stands = now_;
}

// --- The report

ReplayWindow& Replay::window() {
  const auto number = static_cast<std::size_t>((now_ - report_.begin) / options_.window);
  if (report_.windows.size() <= number) report_.windows.resize(number + 1);
  return report_.windows[number];
}

void Replay::finish(ReplayReport& report) const {
  const ReplayScheduler::Counters& counters = scheduler_.counters();
  report.moves_wanted = counters.moves_wanted;
  report.moves_refused = counters.moves_refused;
  report.policy_failures = counters.policy_failures;
  report.ticks = counters.ticks;
  for (std::size_t place = 0; place < place_bytes_.size(); ++place)
    report.bytes_by_place[to_string(machine_.places[place].location)] = place_bytes_[place];
  for (std::size_t link = 0; link < machine_.links.size(); ++link) {
    const auto id = static_cast<LinkId>(link);
    report.bytes_by_link[machine_.links.name(id)] = traffic_.carried(id);
  }
}

}  // namespace vma
