#include "migrate/copying/live_copiers.hpp"

namespace vma {

LiveCopiers::LiveCopiers(Memory& memory, CopyEngine& engine, const LiveTuning& tuning)
    : memory_(memory), engine_(engine), tuning_(tuning) {}

LiveCopiers::~LiveCopiers() {
  const MutexLock lock(mutex_);
  {
    const MutexLock slow_work(memory_.chunks().slow_calls().turn());
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
    copier = std::make_unique<LiveCopier>(memory_, device, context, tuning_);
  }
  return *copier;
}

std::uint64_t LiveCopiers::table_bytes() const {
  return LiveCopier::table_bytes(memory_.topology().granularity(), tuning_);
}

}  // namespace vma
