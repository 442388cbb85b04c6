#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk.hpp"

#include <vma/error.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace vma {

/// How chunks are created at each place, so that they can leave the process: as was asked for, less
/// what the device does not have or the driver has refused. Any thread.
///
/// A type counts as refused if creation fails with it and then succeeds without it, whatever the
/// error: drivers and containers that forbid a type do not agree on one. It is not asked for again
/// at that place. Fabric handles go first, because they need a daemon that few machines run, then
/// access by network cards, then descriptors.
class ExportTerms {
 public:
  /// `wanted`: for all chunks.
  ExportTerms(Driver& driver, const Topology& topology, const ExportTypes& wanted);

  /// Those of `needs` that new chunks at the place can have.
  ExportTypes given(Place at, const ExportTypes& needs) const;
  /// Whether the chunk can leave the process in those of `needs` that are given where it lies.
  bool suits(const Chunk& chunk, const ExportTypes& needs) const {
    return chunk.imported() || chunk.types().includes(given(chunk.at(), needs));
  }
  /// Creates memory there, with those of `needs` that are given. Throws: what the driver throws,
  /// except a refusal of export types.
  ChunkMemory create(Place at, std::uint64_t size_bytes, const ExportTypes& needs);
  /// Throws: Error{unsupported} that says why, and what to do, if a chunk of the allocation cannot
  /// be exported by descriptor. Requires: the caller holds its `operations()`.
  void require_descriptors(const Allocation& allocation, const char* call) const;

 private:
  ChunkMemory create_with(Place at, std::uint64_t size_bytes, const ExportTypes& types);
  ChunkMemory create_with_fewer(Place at, std::uint64_t size_bytes, const ExportTypes& types,
                                const Error& refusal);
  std::string why_not(Place at, bool asked_for) const;
  void note_refused(Place at, const ExportTypes& refused, const char* why) noexcept;

  Driver& driver_;
  const ExportTypes wanted_;
  mutable Mutex mutex_;
  std::map<Place, ExportTypes> possible_ VMART_GUARDED_BY(mutex_);
  std::map<Place, std::string> refusals_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
