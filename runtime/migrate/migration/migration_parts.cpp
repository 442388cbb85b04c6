#include "migrate/migration/migration_parts.hpp"

#include <algorithm>

namespace vma {

std::chrono::nanoseconds MigratorLimits::patience_with_gates(const MigrateOptions& options) const {
  return options.deadline.count() > 0
             ? std::min<std::chrono::nanoseconds>(options.deadline, limit_max)
             : progress_limit;
}

HoldLimits MigratorLimits::of_hold(const MigrateOptions& options) const {
  constexpr std::chrono::seconds patience_min(2);  // One driver call may create and release a lot.
  const std::chrono::nanoseconds rest_limit =
      options.deadline.count() > 0 ? std::min(options.deadline, limit_max) : hold_limit;
  return {rest_limit, std::max<std::chrono::nanoseconds>(rest_limit, patience_min)};
}

MigrationParts::MigrationParts(Memory& memory, CopyEngine& engine, const MigratorLimits& limits)
    : memory(memory),
      engine(engine),
      limits(limits),
      callbacks(std::make_shared<Callbacks>(memory.driver())),
      copiers(memory, engine, limits.tuning),
      stops(memory, limits.suspends,
            [&engine](DeviceId device) { return engine.own_context(device); }),
      reach(memory.topology(), stops.attached()),
      budget(limits.stall_budget, limits.copy_budget_bytes) {}

}  // namespace vma
