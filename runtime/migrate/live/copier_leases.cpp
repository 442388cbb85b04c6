#include "migrate/live/copier_leases.hpp"

#include <algorithm>

namespace vma {

LiveCopier* CopierLeases::find(DeviceId device) const noexcept {
  for (const Lease& lease : leases_) {
    if (lease.device == device) return lease.copier;
  }
  return nullptr;
}

LiveCopier* CopierLeases::try_take(DeviceId device) {
  if (LiveCopier* const leased = find(device)) return leased;
  LiveCopier& copier = copiers_.get(device);
  leases_.reserve(leases_.size() + 1);
  if (!copier.turn.try_lock()) return nullptr;
  leases_.push_back({device, &copier});
  return &copier;
}

bool CopierLeases::has(const LiveCopier* copier) const noexcept {
  return std::ranges::find(leases_, copier, &Lease::copier) != leases_.end();
}

void CopierLeases::give_up_all() noexcept {
  for (const Lease& lease : leases_) lease.copier->turn.unlock();
  leases_.clear();
}

}  // namespace vma
