#pragma once

#include "memory/memory.hpp"
#include "sharing/place_names.hpp"
#include "sharing/share_protocol.hpp"

#include <vector>

namespace vma {

/// Makes chunks of what exporters send. Any thread.
class ImportedChunks {
 public:
  ImportedChunks(Memory& memory, const PlaceNames& places) : memory_(memory), places_(places) {}

  /// Throws: Error{unreachable} if this process does not use the place; what the driver throws.
  /// Blocks: for the turn for slow calls, and in the driver. The descriptor stays the caller's.
  Chunk take(const SharedChunk& shared, int descriptor) const;

 private:
  Memory& memory_;
  const PlaceNames& places_;
};

}  // namespace vma
