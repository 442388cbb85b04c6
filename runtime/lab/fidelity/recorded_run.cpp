#include "lab/fidelity/recorded_run.hpp"

#include "lab/import/recording_records.hpp"
#include "lab/import/trace_formats.hpp"
#include "placement/books/place_number.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace vma {
namespace {

/// Sums up all records but uses; `PlaceBooks` counts those in order of time.
class FactFinder : public RecordListener {
 public:
  explicit FactFinder(RecordedRun& run) : run_(run) {}

  void begin_file(const RecordingHeader& header) override {
    if (run_.header.places.empty()) run_.header = header;
  }
  void damaged(const RecordingDamage&) override {}
  void add(const RecordedEvent& event) override {
    std::visit([this](const auto& record) { note(record); }, event);
  }

  void sort() {
    std::ranges::stable_sort(run_.moves, {}, &RecordedMove::end);
    std::ranges::stable_sort(run_.stalls, {}, &RecordedStall::time);
  }
  /// Sums up the gates since the first use: earlier moves were the program's preparation. Requires:
  /// uses have been counted.
  void sum_stalls() {
    RecordedFacts& facts = run_.facts;
    for (const RecordedStall& record : run_.stalls) {
      if (record.time < facts.first_use) continue;
      ++facts.stalls;
      facts.stall += record.stall;
      facts.skew += record.skew;
    }
    if (run_.stalls.empty()) facts.stall = stall_of_moves_;
  }

 private:
  void note(const RecordedMove& record) {
    RecordedFacts& facts = run_.facts;
    // Older recordings do not say whether the program moved a chunk.
    const bool by_program = run_.header.scheduler && record.decision == 0;
    if (!record.moved) {
      ++facts.moves_failed;
    } else if (by_program) {
      ++facts.program_moves;
      facts.program_bytes_moved += record.bytes;
    } else {
      ++facts.moves;
      facts.bytes_moved += record.bytes;
      facts.bytes_by_route[fmt::format("{}>{}", name(record.from), name(record.to))] +=
          record.bytes;
      stall_of_moves_ += record.stall;
      run_.moves.push_back(record);
    }
  }
  void note(const RecordedStall& record) { run_.stalls.push_back(record); }
  void note(const Decision& decision) {
    RecordedFacts& facts = run_.facts;
    ++facts.decisions;
    if (!decision.policy.empty() && std::ranges::count(facts.policies, decision.policy) == 0)
      facts.policies.push_back(decision.policy);
  }
  void note(const RecordedUse& use) { run_.facts.samples += use.weight > 1 ? 1 : 0; }
  void note(const RecordedHint&) { ++run_.facts.hints; }
  void note(const RecordedGap& gap) { run_.facts.records_lost += gap.records; }
  void note(const RecordedAllocation&) {}
  void note(const RecordedFree&) {}

  std::string name(PlaceId at) const;

  RecordedRun& run_;
  Time stall_of_moves_{0};
};

std::string FactFinder::name(PlaceId at) const {
  return to_string(recorded_location(run_.header, index(at)));
}

/// Counts an access, of whose bytes `parts` says where they were.
void count(const TraceEvent& event, std::span<const PlaceBooks::Part> parts, RecordedFacts& facts) {
  if (facts.accesses++ == 0) facts.first_use = event.time;
  facts.last_use = event.time;
  for (const PlaceBooks::Part& part : parts) {
    facts.bytes += part.bytes;
    if (part.at == event.at) facts.own_bytes += part.bytes;
  }
}

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error(ErrorKind::invalid_argument, "read_run", fmt::format("{}: {}", path, reason));
}

/// Names each place by its number in the recording.
void rename_places(RecordedRun& run) {
  const std::vector<PlaceState>& places = run.header.places;
  for (TraceEvent& event : run.trace.events()) {
    if (!event.at.is_set()) continue;
    const auto found = std::ranges::find(places, event.at.place(), &PlaceState::place);
    event.at =
        TracePlace(recorded_location(run.header, static_cast<std::size_t>(found - places.begin())));
  }
}

}  // namespace

Place recorded_location(const RecordingHeader& header, std::size_t place) {
  const std::size_t gpus = header.costs.gpus();
  return place < gpus ? gpu(static_cast<int>(place)) : host(static_cast<int>(place - gpus));
}

void PlaceBooks::follow(const TraceEvent& event) {
  for (; next_ < moves_.size() && moves_[next_].end <= event.time; ++next_) apply(moves_[next_]);
  switch (event.kind) {
    case TraceEventKind::allocation:
      objects_[event.object] = {event.chunk_bytes,
                                std::vector((event.bytes - 1) / event.chunk_bytes + 1, event.at)};
      break;
    case TraceEventKind::place: place(event); break;
    case TraceEventKind::free: objects_.erase(event.object); break;
    case TraceEventKind::access: find_parts(event); break;
    default: break;
  }
}

void PlaceBooks::apply(const RecordedMove& move) {
  const auto found = objects_.find(move.allocation);
  if (found == objects_.end() || move.slot >= found->second.at.size()) return;
  found->second.at[move.slot] = TracePlace(recorded_location(header_, index(move.to)));
}

void PlaceBooks::place(const TraceEvent& event) {
  Object& object = objects_.at(event.object);
  const std::uint64_t end = (event.offset + event.bytes - 1) / object.chunk_bytes;
  for (std::uint64_t slot = event.offset / object.chunk_bytes; slot <= end; ++slot)
    object.at[slot] = event.at;
}

void PlaceBooks::find_parts(const TraceEvent& event) {
  const Object& object = objects_.at(event.object);
  const double passes = event.passes * (event.use == UseKind::read_write ? 2.0 : 1.0);
  const std::uint64_t end = event.offset + event.bytes;
  parts_.clear();
  for (std::uint64_t slot = event.offset / object.chunk_bytes; slot * object.chunk_bytes < end;
       ++slot) {
    const std::uint64_t first = std::max(slot * object.chunk_bytes, event.offset);
    const std::uint64_t last = std::min((slot + 1) * object.chunk_bytes, end);
    parts_.push_back({object.at[slot], static_cast<double>(last - first) * passes});
  }
}

void read_run(const std::string& path, std::uint64_t bad_records_max, RecordedRun& run) {
  FactFinder finder(run);
  read_records(path, finder);
  if (run.header.file != run.header.first_file)
    refuse(path, fmt::format("continues the file with number {}", run.header.first_file));
  const TraceFormat format = recording_format();
  const TraceValues values(format.parameters, {});
  BadLines bad(path, bad_records_max);
  EventOrder order(run.trace);
  format.convert({path, values, 0, bad}, order);
  order.finish();
  run.bad_records = bad.count();
  rename_places(run);
  finder.sort();
  PlaceBooks books(run.header, run.moves);
  for (const TraceEvent& event : std::as_const(run.trace).events()) {
    books.follow(event);
    if (event.kind == TraceEventKind::access) count(event, books.parts(), run.facts);
  }
  if (run.facts.accesses == 0) refuse(path, "contains no uses");
  finder.sum_stalls();
}

}  // namespace vma
