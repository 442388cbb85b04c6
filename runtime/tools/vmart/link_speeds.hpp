#pragma once

#include "runtime/runtime_parts.hpp"

#include <cstdint>
#include <map>
#include <utility>

namespace vma {

/// GB/s of one copy between each pair of locations, made as migrations copy: through the runtime's
/// copy engine, the best of a few. Throws: Error{out_of_memory} if a chunk does not fit.
std::map<std::pair<Location, Location>, double> measure_links(RuntimeParts& parts,
                                                              std::uint64_t size_bytes);

}  // namespace vma
