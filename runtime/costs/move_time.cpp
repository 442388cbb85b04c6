#include "costs/move_time.hpp"

#include <algorithm>

namespace vma {

Time move_time(const MigrationReport& report) {
  const Phases& phases = report.phases;
  const Time busy = phases.cache + phases.copy + phases.settle + phases.unmap + phases.map +
                    phases.grant + phases.retire;
  return std::min(busy, std::max(Time::zero(), report.wall - phases.wait));
}

}  // namespace vma
