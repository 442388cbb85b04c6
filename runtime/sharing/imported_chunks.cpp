#include "sharing/imported_chunks.hpp"

#include <fmt/format.h>

#include <optional>

namespace vma {

Chunk ImportedChunks::take(const SharedChunk& shared, int descriptor) const {
  const std::optional<Location> at = places_.find(shared.at);
  if (!at) {
    throw Error(ErrorKind::unreachable, import_call,
                fmt::format("the memory lies at {}, which this process does not use; check "
                            "CUDA_VISIBLE_DEVICES and VMART_DEVICES",
                            shared.at.gpu.empty() ? fmt::format("host node {}", shared.at.node)
                                                  : "GPU " + shared.at.gpu));
  }
  Driver& driver = memory_.driver();
  const std::vector<Accessor>& readers = memory_.topology().readers(*at);
  const MutexLock turn(memory_.chunks().slow_calls().turn());
  const ChunkHandle handle = driver.import_chunk(descriptor);
  return Chunk(driver, memory_.chunks().ledger(),
               ChunkMemory{handle, *at, shared.size_bytes, {}, true}, readers);
}

}  // namespace vma
