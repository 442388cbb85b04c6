#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

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

}  // namespace vma
