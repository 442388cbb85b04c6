#include "migrate/migration/reserved_targets.hpp"

namespace vma {

Transaction& ReservedTargets::add(Memory& memory, CopyEngine& engine, Allocation& allocation,
                                  std::size_t slot, Location to) {
  return targets_.emplace_back(memory, engine, allocation, slot, to);
}

void ReservedTargets::hand_over_to(Transaction& planned) noexcept {
  while (!targets_.empty() && targets_.front().slot() < planned.slot()) targets_.pop_front();
  if (targets_.empty() || targets_.front().slot() != planned.slot()) return;
  planned.take_over_target(targets_.front());
  targets_.pop_front();
}

}  // namespace vma
