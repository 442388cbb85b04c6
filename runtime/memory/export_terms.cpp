#include "memory/export_terms.hpp"

#include "base/log.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <exception>
#include <string_view>
#include <vector>

namespace vma {
namespace {

/// The same without the type that is most likely to be what the driver refuses.
ExportTypes fewer(ExportTypes types) {
  if (types.fabric)
    types.fabric = false;
  else if (types.rdma)
    types.rdma = false;
  else
    types.descriptor = false;
  return types;
}

}  // namespace

ExportTerms::ExportTerms(Driver& driver, const Topology& topology, const ExportTypes& wanted)
    : driver_(driver), wanted_(wanted) {
  for (const Place at : topology.places()) possible_[at] = driver.export_types(at);
}

ExportTypes ExportTerms::given(Place at, const ExportTypes& needs) const {
  if (!needs.any()) return {};
  const MutexLock lock(mutex_);
  return possible_.at(at) & needs;
}

ChunkMemory ExportTerms::create(Place at, std::uint64_t size_bytes, const ExportTypes& needs) {
  const ExportTypes types = given(at, wanted_ | needs);
  try {
    return create_with(at, size_bytes, types);
  } catch (const Error& error) {
    if (!types.any() || error.kind() == ErrorKind::out_of_memory) throw;
    return create_with_fewer(at, size_bytes, types, error);
  }
}

ChunkMemory ExportTerms::create_with(Place at, std::uint64_t size_bytes, const ExportTypes& types) {
  const ChunkHandle handle = types.any() ? driver_.create_exportable(at, size_bytes, types)
                                         : driver_.create(at, size_bytes);
  return {handle, at, size_bytes, types};
}

/// If none of the other ways works either, the types are not the reason.
ChunkMemory ExportTerms::create_with_fewer(Place at, std::uint64_t size_bytes,
                                           const ExportTypes& types, const Error& refusal) {
  for (ExportTypes left = fewer(types);; left = fewer(left)) {
    try {
      const ChunkMemory memory = create_with(at, size_bytes, left);
      note_refused(at, types - left, refusal.what());
      return memory;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::out_of_memory) throw;
      if (!left.any()) throw refusal;
    }
  }
}

void ExportTerms::note_refused(Place at, const ExportTypes& refused, const char* why) noexcept {
  try {
    const MutexLock lock(mutex_);
    ExportTypes& types = possible_.at(at);
    types.descriptor &= !refused.descriptor;
    types.fabric &= !refused.fabric;
    types.rdma &= !refused.rdma;
    refusals_[at] = why;
    std::vector<std::string_view> names;
    if (refused.descriptor) names.emplace_back("export by descriptor");
    if (refused.rdma) names.emplace_back("network access");
    if (refused.fabric) names.emplace_back("fabric handles");
    log(LogLevel::info, "memory at {} is created without {} from now on: {}", to_string(at),
        fmt::join(names, ", "), why);
  } catch (const std::exception&) {  // Without memory to note it, the next chunk is refused again.
  }
}

void ExportTerms::require_descriptors(const Allocation& allocation, const char* call) const {
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    const Chunk& chunk = allocation.chunk(slot);
    if (chunk.types().descriptor) continue;
    throw Error(ErrorKind::unsupported, call,
                fmt::format("the allocation at {:#x} cannot be exported: {}",
                            to_integer(allocation.begin()),
                            why_not(chunk.at(), allocation.export_needs.descriptor)));
  }
}

std::string ExportTerms::why_not(Place at, bool asked_for) const {
  const MutexLock lock(mutex_);
  if (!asked_for && !wanted_.descriptor) {
    return "its memory was created for this process only; set AllocOptions::exportable when you "
           "allocate it, or PoolOptions::exportable of its pool, or open the runtime with "
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
