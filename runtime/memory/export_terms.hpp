#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk.hpp"

#include <cstdint>
#include <map>

namespace vma {

/// How chunks are created at each place, so that they can leave the process: as was asked for, less
/// what the device does not have or the driver has refused. Any thread.
///
/// A refused type is not asked for again at that place: fabric handles go first, because they need
/// a daemon that few machines run, then access by network cards, then descriptors.
class ExportTerms {
 public:
  ExportTerms(Driver& driver, const Topology& topology, const ExportTypes& wanted);

  ExportTypes at(Location at) const;
  /// Creates memory there. Throws: what the driver throws, except a refusal of export types.
  ChunkMemory create(Location at, std::uint64_t size_bytes);
  /// Throws: Error{unsupported} that says why, and what to do, if a chunk of the allocation cannot
  /// be exported by descriptor. Requires: the caller holds its `operations()`.
  void require_descriptors(const Allocation& allocation, const char* call) const;

 private:
  std::string why_not(Location at) const;
  void give_up_one(Location at, const ExportTypes& refused, const char* why);

  Driver& driver_;
  const ExportTypes wanted_;
  mutable Mutex mutex_;
  std::map<Location, ExportTypes> types_ VMART_GUARDED_BY(mutex_);
  std::map<Location, std::string> refusals_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
