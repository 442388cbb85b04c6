#pragma once

#include "memory/memory.hpp"
#include "migrate/mover.hpp"
#include "service/parker.hpp"

#include <vma/runtime.hpp>

namespace vma {

/// What `Runtime::stats` answers. Takes short locks only.
RuntimeStats runtime_stats(Memory& memory, Mover& mover, Parker& parker);

}  // namespace vma
