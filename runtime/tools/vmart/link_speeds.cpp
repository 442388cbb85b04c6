#include "tools/vmart/link_speeds.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

double gb_per_second(Driver& driver, CopyEngine& engine, const Chunk& source, const Chunk& target) {
  constexpr int tries = 4;  // The first one is a warm-up.
  std::chrono::duration<double> best = std::chrono::nanoseconds::max();
  engine.prepare(source.at(), target.at(), 1, CopyUnder::nothing);
  for (int attempt = 0; attempt < tries; ++attempt) {
    const TimePoint start = driver.clock().now();
    engine.wait(engine.enqueue(source, target, CopyUnder::nothing));
    best = std::min<std::chrono::duration<double>>(best, driver.clock().now() - start);
  }
  return static_cast<double>(source.size_bytes()) * 1e-9 / best.count();
}

}  // namespace

std::map<std::pair<Location, Location>, double> measure_links(RuntimeParts& parts,
                                                              std::uint64_t size_bytes) {
  Machinery& machinery = *parts.machinery;
  Memory& memory = machinery.memory;
  std::map<Location, Chunk> chunks;
  std::map<std::pair<Location, Location>, double> speeds;
  try {
    for (const Location at : machinery.topology.locations()) {
      chunks.emplace(at, memory.chunks().obtain(at, size_bytes, ChunkStore::Turn::take));
    }
    for (const auto& [from, source] : chunks) {
      for (const auto& [to, target] : chunks) {
        const bool no_gpu = from.kind == Location::Kind::host && to.kind == Location::Kind::host;
        if (from == to || no_gpu) continue;
        speeds[{from, to}] = gb_per_second(*parts.driver, machinery.engine, source, target);
      }
    }
  } catch (...) {
    for (auto& [at, chunk] : chunks) memory.chunks().retire(std::move(chunk));
    throw;
  }
  for (auto& [at, chunk] : chunks) memory.chunks().retire(std::move(chunk));
  return speeds;
}

}  // namespace vma
