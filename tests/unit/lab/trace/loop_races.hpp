#pragma once

#include "unit/lab/trace/trace_rig.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// What could happen in the wrong order in a closed loop, for it is not ordered by predecessors:
/// two tasks of which one writes what the other accesses, the allocation of an object and an
/// access, or an access and the free. Objects with the tag `shared` may be written at the same
/// time. For small traces: the number of ancestors of all tasks must fit into memory.
std::vector<std::string> loop_races(const std::vector<ToldEvent>& events,
                                    std::string_view shared = "shared");

}  // namespace vma
