#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace vma {
namespace {

constexpr std::array zipf_drift_parameters{
    gpus_parameter,
    object_bytes_parameter,
    length_parameter,
    TraceParameter{"objects", 1000, 1, 1e7, "objects"},
    TraceParameter{"accesses_s", 10'000, 1e-3, 1e8, "average accesses per second", false},
    TraceParameter{"skew", 1, 0, 4, "exponent of Zipf's law; 0: uniform", false},
    TraceParameter{"affinity", 0.9, 0, 1, "how often an object's own GPU uses it", false},
    TraceParameter{"drift_s", 5, 1e-3, 1e6, "time between drifts", false},
    TraceParameter{"drift", 0.1, 0, 1, "share of the hottest tenth that a drift replaces", false},
    TraceParameter{"write", 0.1, 0, 1, "share of accesses that write", false}};

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

/// Reads of whole objects as a Poisson process; Zipf's law determines the object. Each object has
/// an own GPU that uses it with probability "affinity"; otherwise a random GPU does. Every
/// "drift_s" each of the hottest tenth of the ranks goes to another object with probability
/// "drift", and that object's own GPU is redrawn: so the hot objects and their GPUs change
/// gradually, without marks. An access writes with probability "write".
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

}  // namespace

TraceGenerator zipf_drift_generator() {
  return {"zipf-drift", "a few hot objects that change over time", zipf_drift_parameters,
          generate_zipf_drift};
}

}  // namespace vma
