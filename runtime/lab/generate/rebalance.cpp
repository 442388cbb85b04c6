#include "lab/generate/rebalance.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

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

}  // namespace

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

}  // namespace vma
