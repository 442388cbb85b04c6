#include "migrate/live/copier_leases.hpp"

#include <algorithm>

namespace vma {

LiveCopier* CopierLeases::find(DeviceId device, bool own) const noexcept {
  for (const Lease& lease : leases_) {
    if (lease.device == device && lease.own == own) return lease.copier;
  }
  return nullptr;
}

LiveCopier* CopierLeases::try_take(DeviceId device, bool own) {
  if (LiveCopier* const leased = find(device, own)) return leased;
  LiveCopier& copier = copiers_.get(device, own);
  leases_.reserve(leases_.size() + 1);
  if (!copier.turn.try_lock()) return nullptr;
  leases_.push_back({device, own, &copier});
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
