#include "unit/placement/policies/policy_rig.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace vma {
inline namespace v1 {
std::vector<PlaceState> PolicyMachine::places() const {
  std::vector<PlaceState> places(capacities.size());
  const std::size_t gpus = costs.gpus();
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i].place = i < gpus ? gpu(static_cast<int>(i)) : host(static_cast<int>(i - gpus));
    places[i].capacity_bytes = capacities[i];
  }
  return places;
}

PolicyMachine PolicyMachine::h200(std::size_t gpus, std::uint64_t hbm_bytes,
                                  std::uint64_t host_bytes) {
  using namespace std::chrono_literals;
  const std::size_t places = gpus + 1;
  PolicyMachine machine{MachineCosts(gpus, places), std::vector(gpus, hbm_bytes), 10ms};
  machine.capacities.push_back(host_bytes);
  for (std::size_t i = 0; i < places; ++i) {
    for (std::size_t k = 0; k < places; ++k) {
      const PlaceId from = gpu_place(i), to = gpu_place(k);
      const bool with_host = i == gpus || k == gpus;
      if (i < gpus) {
        machine.costs.access_rate(from, to) = i == k ? 3.8e12 : with_host ? 52e9 : 390e9;
        machine.costs.access_latency(from, to) = i == k ? 600ns : with_host ? 2us : 1500ns;
      }
      if (i == k) continue;
      machine.costs.copy_rate(from, to) = with_host ? 54e9 : 395e9;
      machine.costs.move_fixed(from, to) = 200us;
      machine.costs.stall_fixed(from, to) = 200us;
    }
  }
  machine.costs.rank();
  return machine;
}

PolicyValues policy_values(const PolicyKind& kind, const PolicyRig::Values& values) {
  PolicyValues all;
  std::size_t named = 0;
  for (const PolicyParameter& parameter : kind.parameters) {
    const auto found = values.find(parameter.name);
    const double value = found == values.end() ? parameter.otherwise : found->second;
    EXPECT_GE(value, parameter.least) << kind.name << ":" << parameter.name;
    EXPECT_LE(value, parameter.most) << kind.name << ":" << parameter.name;
    all.set(parameter.name, value);
    if (found != values.end()) ++named;
  }
  EXPECT_EQ(named, values.size()) << kind.name << " has no such parameter";
  return all;
}

PolicyRig::PolicyRig(const PolicyKind& kind, const PolicyMachine& machine, const Values& values)
    : tick_(machine.tick),
      tables_(machine.places(), machine.costs),
      policy_(kind.make(policy_values(kind, values))) {
  tables_.set_now(std::chrono::seconds(1));
}

ChunkId PolicyRig::allocate(const std::vector<std::uint64_t>& chunk_bytes, PlaceId at,
                            const std::string& tag) {
  std::vector<ChunkTables::NewChunk> chunks;
  for (const std::uint64_t bytes : chunk_bytes) chunks.push_back({bytes, at});
  const ChunkId first = tables_.add(++last_allocation_, tag, chunks);
  allocations_[first] = chunks.size();
  EXPECT_LE(snapshot().place(at).used_bytes, snapshot().place(at).capacity_bytes) << "no room";
  return first;
}

ChunkId PolicyRig::request(std::uint64_t bytes, std::uint64_t chunk_bytes, PlaceId device,
                           const std::string& tag) {
  const std::size_t count = (bytes + chunk_bytes - 1) / chunk_bytes;
  const auto size = [&](std::size_t i) { return std::min(chunk_bytes, bytes - i * chunk_bytes); };
  std::vector<std::uint64_t> room;
  for (const PlaceState& place : snapshot().places()) room.push_back(place.free_bytes());
  std::vector<PlaceId> chosen(count, device);
  for (std::size_t i = 0; i < count; ++i) {
    for (const PlaceId place : costs().by_speed(device)) {
      if (room[index(place)] < size(i)) continue;
      room[index(place)] -= size(i);
      chosen[i] = place;
      break;
    }
  }
  policy_->on_alloc({bytes, chunk_bytes, device, tag}, snapshot(), chosen);
  std::vector<ChunkTables::NewChunk> chunks;
  for (std::size_t i = 0; i < count; ++i) chunks.push_back({size(i), chosen[i]});
  const ChunkId first = tables_.add(++last_allocation_, tag, chunks);
  allocations_[first] = count;
  for (const PlaceState& place : snapshot().places()) {
    EXPECT_LE(place.used_bytes, place.capacity_bytes) << "no room at " << to_string(place.place);
  }
  return first;
}

void PolicyRig::free(ChunkId first) {
  const auto found = allocations_.find(first);
  VMART_CHECK(found != allocations_.end(), "what is freed was allocated");
  const std::size_t chunks = found->second;
  for (std::size_t i = 0; i < chunks; ++i) policy_->on_gone(next(first, i));
  tables_.remove(first, chunks);
  allocations_.erase(found);
}

Plan PolicyRig::use(ChunkId chunk, PlaceId device, double bytes_read, double bytes_written) {
  tables_.used(chunk, device, bytes_read, bytes_written);
  Plan plan;
  policy_->on_use({chunk, device, bytes_read, bytes_written}, snapshot(), plan);
  return plan;
}

Plan PolicyRig::advise(ChunkId chunk, const Hint& hint) {
  Hint at = hint;
  if (at.next_use) at.next_use = now() + *at.next_use;
  if (at.until) at.until = now() + *at.until;
  tables_.hinted(chunk, at);
  PlaceId device = tables_.row(chunk).at;
  for (std::size_t i = 0; i < costs().gpus(); ++i) {
    if (snapshot().place(gpu_place(i)).place == hint.device) device = gpu_place(i);
  }
  Plan plan;
  policy_->on_use({chunk, device, 0, 0, &at}, snapshot(), plan);
  return plan;
}

Plan PolicyRig::press(const Pressure& pressure) {
  Plan plan;
  policy_->on_pressure(pressure, snapshot(), plan);
  return plan;
}

void PolicyRig::advance(Time time) {
  tables_.set_now(now() + time);
}

Plan PolicyRig::tick() {
  advance(tick_);
  Plan plan;
  policy_->on_tick(snapshot(), plan);
  tables_.clear_changed();
  return plan;
}

void PolicyRig::check_and_move(const Move& move) {
  SCOPED_TRACE(testing::Message() << "chunk " << index(move.chunk) << ": " << move.reason);
  const ChunkRow before = snapshot().chunk(move.chunk);
  EXPECT_FALSE(move.reason.empty());
  EXPECT_GT(before.bytes, 0u) << "no such chunk";
  EXPECT_TRUE(before.movable && before.in_scope && !before.moving && !before.parked);
  EXPECT_NE(index(before.at), index(move.to)) << "it lies there";
  EXPECT_GT(costs().copy_rate(before.at, move.to), 0) << "no way there";
  EXPECT_GE(free_bytes(move.to), before.bytes) << "no room";
  tables_.moved(move.chunk, move.to);
  made_.push_back(move);
  policy_->on_result(
      {move.chunk, before.at, move.to, true, costs().move_time(before.at, move.to, before.bytes),
       costs().stall_time(before.at, move.to, before.bytes)},
      snapshot());
}

std::size_t PolicyRig::apply(const Plan& plan) {
  for (const Move& move : plan.moves()) check_and_move(move);
  return plan.moves().size();
}

std::size_t PolicyRig::run(Time duration, const std::function<void()>& feed) {
  const std::size_t before = made_.size();
  for (const Time end = now() + duration; now() < end;) {
    if (feed) feed();
    apply(tick());
  }
  return made_.size() - before;
}

std::size_t PolicyRig::use_and_apply(ChunkId chunk, PlaceId device, double bytes_read,
                                     double bytes_written) {
  return apply(use(chunk, device, bytes_read, bytes_written));
}

std::vector<std::size_t> PolicyRig::places_of(ChunkId first, std::size_t chunks) const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < chunks; ++i) places.push_back(index(at(next(first, i))));
  return places;
}

std::string proposals(const Plan& plan) {
  std::string text;
  for (const Move& move : plan.moves()) {
    if (!text.empty()) text += ", ";
    text += "chunk " + std::to_string(index(move.chunk)) + " to " + std::to_string(index(move.to));
  }
  return text;
}

}  // namespace v1
}  // namespace vma
