#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vma {
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

}  // namespace vma
