#include "lab/fidelity/program_pauses.hpp"

#include "lab/fidelity/recorded_run.hpp"
#include "placement/books/place_number.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace vma {
namespace {

[[noreturn]] void refuse_pauses(const std::string& reason) {
  throw Error(ErrorKind::invalid_argument, "ProgramPauses", reason);
}

/// Uses of memory that was just allocated, or is freed at once, may be missing from a recording.
constexpr double lost_share_max = 0.05;

std::size_t gpu_of(const TraceEvent& access) {
  return static_cast<std::size_t>(access.at.place().ordinal);
}

/// When a GPU is done, by the machine's costs.
class GpuClock {
 public:
  GpuClock(const ReplayMachine& machine, std::size_t gpu, std::span<const RecordedStall> stalls)
      : costs_(machine.costs),
        self_(place_numbered(gpu)),
        gap_(machine.gaps.kernel.empty() ? Time(0) : machine.gaps.kernel[gpu]),
        stalls_(stalls) {}

  /// Does the access, launched at `time`. Returns what comes before it.
  ProgramPauses::Before run(Time time, std::span<const PlaceBooks::Part> parts) {
    const bool first = end_ == Time::min();
    // All before has ended, even if the costs say otherwise: they may be too high, and that would
    // add up.
    const bool waits = time >= could_end_;
    if (waits) end_ = std::min(end_, time);
    const bool late = first || time > end_ + gap_;
    const Time pause = first || !late ? Time(0) : time - end_ - stalled(end_, time);
    const Time begin = late ? time : end_ + gap_;
    end_ = begin;
    for (const PlaceBooks::Part& part : parts) end_ += duration(part);
    could_end_ = std::max(time, could_end_) + (gap_ + end_ - begin) / 2;
    return {std::max(pause, Time(0)), waits};
  }

 private:
  /// Stalls are in order, and requests come with times that grow.
  Time stalled(Time from, Time to) {
    Time sum(0);
    while (next_ < stalls_.size() && end_of(stalls_[next_]) <= from) ++next_;
    for (std::size_t i = next_; i < stalls_.size() && stalls_[i].time < to; ++i)
      sum += std::max(std::min(end_of(stalls_[i]), to) - std::max(stalls_[i].time, from), Time(0));
    return sum;
  }
  static Time end_of(const RecordedStall& stall) { return stall.time + stall.skew + stall.stall; }
  Time duration(const PlaceBooks::Part& part) const {
    const auto at = static_cast<std::size_t>(part.at.place().ordinal);
    const PlaceId place = place_numbered(part.at.is_gpu() ? at : costs_.gpus() + at);
    const double seconds = costs_.access_seconds(self_, place, part.bytes);
    return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
  }

  const MachineCosts& costs_;
  const PlaceId self_;
  const Time gap_;
  const std::span<const RecordedStall> stalls_;
  std::size_t next_ = 0;
  Time end_ = Time::min(), could_end_ = Time::min();
};

/// Writes a program's events as tasks.
class LoopWriter {
 public:
  LoopWriter(const RecordedRun& run, KeptTrace& to)
      : run_(run), to_(to), gpus_(run.header.costs.gpus()) {
    for (const TraceEvent& event : run.trace.events()) {
      if (event.kind != TraceEventKind::access) continue;
      users_.try_emplace(event.object, Users{gpu_of(event), gpu_of(event)});
      users_.at(event.object).last = gpu_of(event);
    }
  }

  void access(const TraceEvent& event, const ProgramPauses::Before& before) {
    begun_ = true;
    Gpu& gpu = gpus_[gpu_of(event)];
    if (before.waits || before.pause > Time::zero()) {
      close(gpu, event.time);
      gpu.pause = before.pause;
    }
    gpu.accesses.push_back(event);
  }
  /// Everything but accesses, hints and tasks.
  void other(TraceEvent event) {
    if (event.kind == TraceEventKind::place && begun_)
      refuse_pauses("the program moved memory itself between its accesses");
    for (Gpu& gpu : gpus_) close(gpu, event.time);
    const auto users = users_.find(event.object);
    if (begun_ && users != users_.end() && event.kind == TraceEventKind::allocation) {
      event.task = gpus_[users->second.first].last_task;
      if (event.task != 0) made_after_.emplace(event.object, event.task);
    }
    if (users != users_.end() && event.kind == TraceEventKind::free)
      event.task = gpus_[users->second.last].last_task;
    write(event);
  }
  /// Comes with the progress of the GPU that it is about.
  void hint(TraceEvent event) {
    Gpu& gpu = gpus_[gpu_of(event)];
    close(gpu, event.time);
    event.task = gpu.last_task;
    event.at_end = event.task != 0;
    write(event);
  }
  void finish(Time time) {
    for (Gpu& gpu : gpus_) close(gpu, time);
  }

 private:
  struct Gpu {
    Time pause{0};  // Before the accesses.
    std::vector<TraceEvent> accesses;
    std::uint32_t last_task = 0;
    std::unordered_set<std::uint64_t> known;  // Objects of other GPUs whose allocation it follows.
  };
  struct Users {
    std::size_t first = 0, last = 0;
  };

  void write(const TraceEvent& event) { to_.write({&event, 1}, run_.trace.tags()); }
  void declare(Gpu& gpu, Time time, Time compute, TracePlace at) {
    TraceEvent task;
    task.kind = TraceEventKind::task;
    task.time = time;
    task.task = ++tasks_written_;
    task.bytes = 1;
    task.duration = compute;
    task.at = at;
    write(task);
    if (gpu.last_task != 0) follow(gpu.last_task, time);
    gpu.last_task = task.task;
  }
  void follow(std::uint32_t predecessor, Time time) {
    TraceEvent after;
    after.kind = TraceEventKind::after;
    after.time = time;
    after.task = tasks_written_;
    after.object = predecessor;
    write(after);
  }
  void close(Gpu& gpu, Time time) {
    if (gpu.accesses.empty()) return;
    const TracePlace at = gpu.accesses.front().at;
    const Time pause = std::exchange(gpu.pause, Time(0));
    if (pause > Time::zero()) declare(gpu, time, pause, at);
    declare(gpu, time, Time(0), at);
    follow_allocations(gpu, time);
    for (TraceEvent& access : gpu.accesses) {
      access.time = time;
      access.task = gpu.last_task;
      write(access);
    }
    gpu.accesses.clear();
  }
  /// Waits for the allocation of what another GPU used first.
  void follow_allocations(Gpu& gpu, Time time) {
    std::vector<std::uint32_t> waits;
    for (const TraceEvent& access : gpu.accesses) {
      const auto made = made_after_.find(access.object);
      if (made == made_after_.end() || users_.at(access.object).first == gpu_of(access)) continue;
      if (gpu.known.insert(access.object).second) waits.push_back(made->second);
    }
    std::ranges::sort(waits);
    const auto same = std::ranges::unique(waits);
    waits.erase(same.begin(), same.end());
    for (const std::uint32_t task : waits) follow(task, time);
  }

  const RecordedRun& run_;
  KeptTrace& to_;
  std::vector<Gpu> gpus_;
  std::unordered_map<std::uint64_t, Users> users_;
  std::unordered_map<std::uint64_t, std::uint32_t> made_after_;  // Object; the task before it.
  std::uint32_t tasks_written_ = 0;
  bool begun_ = false;
};

}  // namespace

ProgramPauses::ProgramPauses(const RecordedRun& run, const ReplayMachine& machine)
    : before_(run.header.costs.gpus()) {
  PlaceBooks books(run.header, run.moves);
  std::vector<GpuClock> clocks;
  for (std::size_t gpu = 0; gpu < before_.size(); ++gpu)
    clocks.emplace_back(machine, gpu, run.stalls);
  for (const TraceEvent& event : run.trace.events()) {
    books.follow(event);
    if (event.kind != TraceEventKind::access) continue;
    const std::size_t gpu = gpu_of(event);
    before_[gpu].push_back(clocks[gpu].run(event.time, books.parts()));
  }
}

Time ProgramPauses::total() const {
  Time sum(0);
  for (const std::vector<Before>& gpu : before_) {
    for (const Before& before : gpu) sum += before.pause;
  }
  return sum;
}

std::vector<std::size_t> ProgramPauses::accesses_of(const RecordedRun& run) const {
  if (run.header.costs.gpus() != before_.size())
    refuse_pauses("the program ran on another number of GPUs");
  std::vector<std::size_t> made(before_.size());
  for (const TraceEvent& event : run.trace.events())
    if (event.kind == TraceEventKind::access) ++made[gpu_of(event)];
  for (std::size_t gpu = 0; gpu < made.size(); ++gpu) {
    const auto here = static_cast<double>(made[gpu]);
    const auto there = static_cast<double>(before_[gpu].size());
    if (std::abs(here - there) <= lost_share_max * std::max(here, there)) continue;
    refuse_pauses(
        fmt::format("GPU {} made {} accesses in the run, and {} where its pauses are from", gpu,
                    made[gpu], before_[gpu].size()));
  }
  return made;
}

void ProgramPauses::write_loop(const RecordedRun& run, KeptTrace& to) const {
  const std::vector<std::size_t> made = accesses_of(run);
  LoopWriter writer(run, to);
  std::vector<std::size_t> done(before_.size()), paused(before_.size());
  Time last(0);
  for (const TraceEvent& event : run.trace.events()) {
    last = event.time;
    if (event.kind != TraceEventKind::access) {
      event.kind == TraceEventKind::hint ? writer.hint(event) : writer.other(event);
      continue;
    }
    const std::size_t gpu = gpu_of(event);
    const std::vector<Before>& before = before_[gpu];
    // If some are missing from a recording, the pauses keep their order and sum.
    const std::size_t until = ++done[gpu] * before.size() / made[gpu];
    Before sum;
    for (std::size_t& next = paused[gpu]; next < until; ++next) {
      sum.pause += before[next].pause;
      sum.waits |= before[next].waits;
    }
    writer.access(event, sum);
  }
  writer.finish(last);
}

}  // namespace vma
