#include "lab/bounds/loops/hindsight.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t epochs = 256;

/// Bytes left at each place, in equal parts of the trace's time.
class Room {
 public:
  Room(const LoopGraph& graph, const ReplayMachine& machine) : places_(machine.places.size()) {
    for (const LoopObject& object : graph.objects) end_s_ = std::max(end_s_, object.freed_s);
    for (std::size_t epoch = 0; epoch < epochs; ++epoch)
      for (const PlaceState& place : machine.places)
        left_.push_back(static_cast<double>(place.capacity_bytes));
  }
  bool has(const LoopObject& object, std::size_t place) const {
    for (std::size_t epoch = at(object.born_s); epoch <= at(object.freed_s); ++epoch)
      if (left_[epoch * places_ + place] < object.bytes) return false;
    return true;
  }
  void take(const LoopObject& object, std::size_t place) {
    for (std::size_t epoch = at(object.born_s); epoch <= at(object.freed_s); ++epoch)
      left_[epoch * places_ + place] -= object.bytes;
  }

 private:
  std::size_t at(double seconds) const {
    if (!(end_s_ > 0)) return 0;
    return std::min(static_cast<std::size_t>(seconds / end_s_ * epochs), epochs - 1);
  }

  std::size_t places_;
  double end_s_ = 0;
  std::vector<double> left_;
};

/// By object and place: the time of all its uses, each alone on its links.
std::vector<double> use_times(const LoopGraph& graph, const ReplayMachine& machine) {
  const std::size_t places = machine.places.size();
  std::vector<double> times(graph.objects.size() * places);
  for (const LoopSegment& segment : graph.segments) {
    for (const LoopUse& use : graph.uses_of(segment)) {
      const PlaceId device{static_cast<std::uint8_t>(graph.tasks[use.task].device)};
      for (std::size_t place = 0; place < places; ++place) {
        const PlaceId there{static_cast<std::uint8_t>(place)};
        times[segment.object * places + place] +=
            (use.read_bytes + use.written_bytes) / machine.costs.access_rate(device, there);
      }
    }
  }
  return times;
}

}  // namespace

ObjectHomes hindsight_homes(const LoopGraph& graph, const ReplayMachine& machine) {
  const std::size_t places = machine.places.size();
  const std::vector<double> all_times = use_times(graph, machine);
  const auto times = [&](std::size_t object) {
    return std::span(all_times).subspan(object * places, places);
  };
  std::vector<double> losses;
  for (std::size_t object = 0; object < graph.objects.size(); ++object) {
    const auto [least, most] = std::ranges::minmax(times(object));
    losses.push_back((most - least) / graph.objects[object].bytes);
  }
  std::vector<std::size_t> order(graph.objects.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return losses[i]; });

  Room room(graph, machine);
  for (const LoopObject& object : graph.objects)
    if (object.home) room.take(object, *object.home);
  ObjectHomes homes;
  for (const std::size_t number : order) {
    const LoopObject& object = graph.objects[number];
    std::size_t best = places;
    // Ties go to the last place: hosts have room.
    for (std::size_t place = places; place-- > 0 && !object.home;) {
      const bool better = best == places || times(number)[place] < times(number)[best];
      if (better && room.has(object, place)) best = place;
    }
    if (best == places) continue;
    room.take(object, best);
    homes[object.number] = TracePlace(machine.places[best].place);
  }
  return homes;
}

PlacedTrace::PlacedTrace(TraceSource& source, const ObjectHomes& homes)
    : source_(source), homes_(homes) {
  header_ = source.header();
}

std::span<const TraceEvent> PlacedTrace::next() {
  const auto events = source_.next();
  events_.assign(events.begin(), events.end());
  for (std::size_t tag = tags_.size(); tag < source_.tags().size(); ++tag)
    tags_.intern(source_.tags().text(static_cast<TagId>(tag)));
  for (TraceEvent& event : events_) {
    if (event.kind != TraceEventKind::allocation || event.at.is_set()) continue;
    if (const auto home = homes_.find(event.object); home != homes_.end()) event.at = home->second;
  }
  return events_;
}

}  // namespace vma
