#include "lab/generate/zipf_drift.hpp"

#include "lab/generate/zipf.hpp"

#include <algorithm>
#include <vector>

namespace vma {
namespace {

/// The GPU that uses each object most.
class Users {
 public:
  Users(std::size_t objects, std::uint64_t gpus, double affinity, TraceRandom& random)
      : gpus_(gpus), affinity_(affinity), own_(objects) {
    for (std::uint64_t& gpu : own_) gpu = random.below(gpus_);
  }
  void redraw(std::size_t object, TraceRandom& random) { own_[object] = random.below(gpus_); }
  TracePlace draw(std::size_t object, TraceRandom& random) const {
    const std::uint64_t drawn = random.chance(affinity_) ? own_[object] : random.below(gpus_);
    return TracePlace(gpu(static_cast<int>(drawn)));
  }

 private:
  std::uint64_t gpus_;
  double affinity_;
  std::vector<std::uint64_t> own_;
};

/// Objects that become hot also get a new GPU.
void drift(Popularity& popularity, Users& users, double probability, std::size_t objects,
           TraceRandom& random) {
  const std::size_t hot = std::max<std::size_t>(1, objects / 10);
  std::vector<std::size_t> before;
  for (std::size_t rank = 0; rank < hot; ++rank) before.push_back(popularity.item(rank));
  popularity.drift(hot, probability, random);
  for (std::size_t rank = 0; rank < hot; ++rank) {
    if (popularity.item(rank) != before[rank]) users.redraw(popularity.item(rank), random);
  }
}

}  // namespace

void generate_zipf_drift(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  const ObjectSet objects(order, 0, values.whole("objects"), values.whole("object_bytes"), "zipf");
  const auto count = static_cast<std::size_t>(objects.count());
  Popularity popularity(count, values["skew"], random);
  Users users(count, values.whole("gpus"), values["affinity"], random);
  const Time end = seconds_of(values["length_s"]), drift_time = seconds_of(values["drift_s"]);
  const double gap_ns = 1e9 / values["accesses_s"];
  Time next_drift = drift_time;
  objects.allocate_all(Time(0));
  for (Time now = random.exponential(gap_ns); now < end; now += random.exponential(gap_ns)) {
    for (; next_drift <= now; next_drift += drift_time) {
      drift(popularity, users, values["drift"], count, random);
    }
    const std::size_t object = popularity.draw(random);
    TraceEvent access = objects.access(now, object);
    access.at = users.draw(object, random);
    if (random.chance(values["write"])) access.use = UseKind::write;
    order.advance(now);
    order.add(access);
  }
  objects.free_all(end);
}

}  // namespace vma
