#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace vma {
namespace {

constexpr std::array phase_change_parameters{
    gpus_parameter,
    object_bytes_parameter,
    TraceParameter{"objects", 1000, 1, 1e7, "objects"},
    TraceParameter{"set", 50, 1, 1e7, "objects in a GPU's working set"},
    TraceParameter{"phases", 4, 1, 60e3, "phases"},
    TraceParameter{"phase_s", 15, 1e-6, 1e6, "duration of a phase", false},
    TraceParameter{"accesses_s", 1000, 1e-3, 1e8, "accesses per second of one GPU", false}};

/// In each phase each GPU passes over its own working set again and again, in the same order at a
/// constant pace. In the next phase all working sets are redrawn from all objects. The sets of one
/// phase are disjoint. A mark begins each phase, to show how long a policy takes to come to rest.
void generate_phase_change(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  const ObjectSet objects(order, 0, values.whole("objects"), values.whole("object_bytes"), "set");
  const std::uint64_t gpus = values.whole("gpus"), set = values.whole("set");
  if (gpus * set > objects.count()) {
    throw Error(
        ErrorKind::invalid_argument, "generate",
        fmt::format("{} GPUs with {} objects each need more than {}", gpus, set, objects.count()));
  }
  const Time phase_time = seconds_of(values["phase_s"]);
  const Time gap = seconds_of(1 / values["accesses_s"]);
  std::vector<std::uint64_t> drawn(objects.count());
  std::iota(drawn.begin(), drawn.end(), std::uint64_t{0});
  objects.allocate_all(Time(0));
  Time begin{0};
  for (std::uint64_t phase = 1; phase <= values.whole("phases"); ++phase, begin += phase_time) {
    random.shuffle(drawn);  // The set of GPU g starts at index g * `set`.
    add_mark(order, begin, fmt::format("phase {}", phase));
    std::uint64_t step = 0;
    for (Time now = begin; now < begin + phase_time; now += gap, ++step) {
      order.advance(now);
      for (std::uint64_t device = 0; device < gpus; ++device) {
        TraceEvent access = objects.access(now, drawn[device * set + step % set]);
        access.at = TracePlace(gpu(static_cast<int>(device)));
        order.add(access);
      }
    }
  }
  objects.free_all(begin);
}

}  // namespace

TraceGenerator phase_change_generator() {
  return {"phase-change", "working sets that change in each phase", phase_change_parameters,
          generate_phase_change};
}

namespace {

constexpr std::array rebalance_parameters{
    TraceParameter{"gpus", 4, 1, 9999, "number of GPUs; each reads a block"},
    TraceParameter{"chunk_bytes", 256 << 20, 1, 1e9, "size of a chunk"},
    TraceParameter{"chunks", 8, 1, 1e6, "chunks per block"},
    TraceParameter{"launch_bytes", 256 << 20, 1 << 16, 1e12, "maximum bytes per access"},
    TraceParameter{"phases", 4, 1, 60e3, "phases"},
    TraceParameter{"rounds", 150, 1, 1e7, "reads of a block per phase"},
    TraceParameter{"round_s", 0.006, 1e-9, 1e6, "time between reads of a block", false}};

/// Reads each block once, from front to back, with all GPUs in parallel.
struct Round {
  std::uint64_t gpus = 0, block_bytes = 0, launch_bytes = 0;

  void add(EventOrder& order, Time now, std::uint64_t phase) const {
    for (std::uint64_t at = 0; at < block_bytes; at += launch_bytes) {
      for (std::uint64_t worker = 0; worker < gpus; ++worker) {
        TraceEvent access;
        access.kind = TraceEventKind::access;
        access.time = now;
        access.object = (worker + phase) % gpus;
        access.offset = at;
        access.bytes = std::min(launch_bytes, block_bytes - at);
        access.at = TracePlace(gpu(static_cast<int>(worker)));
        order.add(access);
      }
    }
  }
};

/// The work of the example `rebalance`, in a fixed amount: each GPU reads its own block again and
/// again, in launches. The blocks rotate with each phase: each GPU then reads the block of its
/// successor. Block i, an object with several chunks, starts at GPU i. A mark begins each phase.
/// Nothing is random: all seeds give the same events.
void generate_rebalance(const TraceValues& values, TraceRandom&, EventOrder& order) {
  const std::uint64_t chunk_bytes = values.whole("chunk_bytes");
  const Round round{values.whole("gpus"), values.whole("chunks") * chunk_bytes,
                    values.whole("launch_bytes")};
  for (std::uint64_t block = 0; block < round.gpus; ++block) {
    TraceEvent event;
    event.kind = TraceEventKind::allocation;
    event.object = block;
    event.bytes = round.block_bytes;
    event.chunk_bytes = chunk_bytes;
    event.tag = order.intern("drifting");
    event.at = TracePlace(gpu(static_cast<int>(block)));
    order.add(event);
  }
  const Time gap = std::max(seconds_of(values["round_s"]), Time(1));
  Time now{0};
  for (std::uint64_t phase = 0; phase < values.whole("phases"); ++phase) {
    add_mark(order, now, fmt::format("phase {}", phase));
    for (std::uint64_t count = 0; count < values.whole("rounds"); ++count, now += gap) {
      order.advance(now);
      round.add(order, now, phase);
    }
  }
  ObjectSet(order, 0, round.gpus, round.block_bytes, "drifting").free_all(now);
}

}  // namespace

TraceGenerator rebalance_generator() {
  return {"rebalance", "blocks that circulate among the GPUs, as in the example",
          rebalance_parameters, generate_rebalance};
}

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
