#include "migrate/copying/live_copiers.hpp"

#include "base/log.hpp"
#include "base/units.hpp"

#include <algorithm>

namespace vma {

LiveCopiers::LiveCopiers(Memory& memory, CopyEngine& engine, const LiveTuning& tuning)
    : memory_(memory), engine_(engine), tuning_(tuning) {
  for (const DeviceId device : memory.topology().devices()) own_[device] = nullptr;
}

LiveCopiers::~LiveCopiers() {
  const MutexLock lock(mutex_);
  {
    const MutexLock slow_work(memory_.chunks().slow_calls().turn());
    for (const auto& [key, copier] : copiers_) {
      if (copier) copier->let_all_go();
    }
    bool ended = true;  // Copiers work for each other: where one does not end, none is trusted.
    for (const auto& [key, copier] : copiers_) ended &= !copier || copier->await_end();
    for (const auto& [key, copier] : copiers_) {
      if (copier && !ended) copier->distrust();
    }
    copiers_.clear();
  }
  for (const auto& [device, context] : applications_) {
    if (is_none(context)) continue;
    memory_.chunks().ledger().undo("a primary context of live copies",
                                   [&, held = device] { memory_.driver().release_primary(held); });
  }
}

ContextHandle LiveCopiers::application_context(DeviceId device) {
  const MutexLock lock(mutex_);
  ContextHandle& context = applications_[device];
  if (!is_none(context)) return context;
  Driver& driver = memory_.driver();
  if (!driver.context_active(device)) return ContextHandle{};
  const MutexLock slow_work(
      memory_.chunks().slow_calls().turn());  // Nothing of the kind while a gate is closed.
  return context = driver.retain_primary(device);
}

LiveCopier& LiveCopiers::get(DeviceId device, bool own) {
  const ContextHandle context = own ? engine_.own_context(device) : application_context(device);
  const MutexLock lock(mutex_);
  std::unique_ptr<LiveCopier>& copier = copiers_[{device, own}];
  if (!copier) {
    const MutexLock slow_work(memory_.chunks().slow_calls().turn());
    Clock& clock = memory_.driver().clock();
    const TimePoint begun = clock.now();
    copier = std::make_unique<LiveCopier>(memory_, device, context, tuning_);
    log(LogLevel::debug, "gpu({}): what live copies need took {:.0f} ms", index(device),
        in_ms(clock.now() - begun));
    if (own) own_.at(device) = copier.get();
  }
  return *copier;
}

LiveCopier* LiveCopiers::find_own(DeviceId device) {
  if (LiveCopier* const there = own_.at(device)) return there;
  const MutexLock lock(wanted_mutex_);
  const auto later = put_off_until_.find(device);
  const TimePoint now = memory_.driver().clock().now();
  if (later == put_off_until_.end() || now >= later->second) wanted_.insert(device);
  return nullptr;
}

std::set<DeviceId> LiveCopiers::take_wanted() {
  const MutexLock lock(wanted_mutex_);
  return std::exchange(wanted_, {});
}

void LiveCopiers::put_off(DeviceId device) {
  constexpr std::chrono::seconds pause(10);
  const MutexLock lock(wanted_mutex_);
  put_off_until_[device] = memory_.driver().clock().now() + pause;
}

void LiveCopiers::await_engines() noexcept {
  constexpr std::chrono::seconds limit(1);
  const TimePoint deadline = memory_.driver().clock().now() + limit;
  for (const auto& [device, own] : own_) {
    if (LiveCopier* const copier = own) copier->await_engine(deadline);
  }
}

std::uint64_t LiveCopiers::table_bytes() const {
  return LiveCopier::table_bytes(memory_.topology().granularity(), tuning_);
}

LiveCopier* CopierLeases::try_take(DeviceId device, bool own) {
  for (const Lease& lease : leases_) {
    if (lease.device == device && lease.own == own) return lease.copier;
  }
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
