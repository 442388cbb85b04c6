#include "bench/placement/drift_bed.hpp"

#include "bench/placement/cases.hpp"

#include <algorithm>

namespace vma {

std::size_t drift_gpus() {
  constexpr std::size_t gpus_max = 4;
  Runtime runtime;
  return std::min(gpus_max, gpus_of(runtime).size());
}

Shares shares_of(const DriftLoad& load, std::size_t phase) {
  Shares shares(load.gpus);
  for (std::size_t reader = 0; reader < load.gpus; ++reader) {
    for (std::size_t block = 0; block < load.blocks; ++block)
      for (std::size_t pass = 0; pass < load.passes(phase, reader, block); ++pass)
        shares[reader].push_back({block * load.block_bytes, load.block_bytes});
  }
  return shares;
}

DriftBed::DriftBed(const DriftLoad& its_load, const RuntimeOptions& options)
    : load(its_load), runtime(options) {
  gpus = gpus_of(runtime);
  gpus.resize(load.gpus);
  AllocOptions how;
  how.chunk_bytes = load.chunk_bytes;
  data = static_cast<std::byte*>(runtime.alloc(load.bytes(), gpus.front(), how));
  lay(first_touch());
  readers = std::make_unique<Readers>(runtime, data, gpus);
}

DriftBed::~DriftBed() {
  readers.reset();
  runtime.free(data);
}

Assignment DriftBed::first_touch() const {
  Assignment touched(load.blocks);
  for (std::size_t block = 0; block < load.blocks; ++block)
    touched[block] = load.first_touch(block);
  return touched;
}

void DriftBed::lay(const Assignment& assignment) {
  MigrateOptions held;
  held.scope = StopScope::hold;
  for (std::size_t block = 0; block < load.blocks; ++block)
    runtime.migrate(data, block * load.block_bytes, load.block_bytes, gpus[assignment[block]],
                    held);
}

}  // namespace vma
