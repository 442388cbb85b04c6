#include "memory/export_terms.hpp"

#include "base/log.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {

ExportTerms::ExportTerms(Driver& driver, const Topology& topology, const ExportTypes& wanted)
    : driver_(driver), wanted_(wanted) {
  for (const Location at : topology.locations()) {
    ExportTypes types;
    if (wanted.any()) {
      const ExportTypes possible = driver.export_types(at);
      types.descriptor = wanted.descriptor && possible.descriptor;
      types.fabric = wanted.fabric && possible.fabric;
      types.rdma = wanted.rdma && possible.rdma;
    }
    types_[at] = types;
  }
}

ExportTypes ExportTerms::at(Location at) const {
  const MutexLock lock(mutex_);
  return types_.at(at);
}

ChunkMemory ExportTerms::create(Location at, std::uint64_t size_bytes) {
  while (true) {
    const ExportTypes types = this->at(at);
    if (!types.any()) return {driver_.create(at, size_bytes), at, size_bytes};
    try {
      return {driver_.create_exportable(at, size_bytes, types), at, size_bytes, types};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      give_up_one(at, types, error.what());
    }
  }
}

/// Ends: each call leaves fewer types, and without any nothing is asked for.
void ExportTerms::give_up_one(Location at, const ExportTypes& refused, const char* why) {
  const MutexLock lock(mutex_);
  ExportTypes& types = types_.at(at);
  if (types != refused) return;  // Another thread has.
  const char* given_up = types.fabric ? "fabric handles"
                         : types.rdma ? "access by network cards"
                                      : "export by descriptor";
  if (types.fabric)
    types.fabric = false;
  else if (types.rdma)
    types.rdma = false;
  else
    types.descriptor = false;
  refusals_[at] = why;
  log(LogLevel::info, "memory at {} is created without {} from now on: {}", to_string(at), given_up,
      why);
}

void ExportTerms::require_descriptors(const Allocation& allocation, const char* call) const {
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    const Chunk& chunk = allocation.chunk(slot);
    if (chunk.types().descriptor) continue;
    throw Error(ErrorKind::unsupported, call,
                fmt::format("the allocation at {:#x} cannot be exported: {}",
                            to_integer(allocation.begin()), why_not(chunk.at())));
  }
}

std::string ExportTerms::why_not(Location at) const {
  const MutexLock lock(mutex_);
  if (!wanted_.descriptor) {
    return "its memory was created for this process only; open the runtime with "
           "RuntimeOptions::exportable (VMART_EXPORTABLE=fd)";
  }
  if (const auto refusal = refusals_.find(at); refusal != refusals_.end()) {
    return fmt::format("the driver refused to create exportable memory at {}: {}", to_string(at),
                       refusal->second);
  }
  return fmt::format(
      "the device reports no POSIX descriptors for memory at {}; in a container, check that it may "
      "use them, or copy the bytes instead",
      to_string(at));
}

}  // namespace vma
