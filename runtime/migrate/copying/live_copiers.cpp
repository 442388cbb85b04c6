#include "migrate/copying/live_copiers.hpp"

namespace vma {

LiveCopiers::LiveCopiers(Memory& memory, CopyEngine& engine, const LiveTuning& tuning)
    : memory_(memory), engine_(engine), tuning_(tuning) {}

LiveCopiers::~LiveCopiers() {
  const MutexLock lock(mutex_);
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  copiers_.clear();
}

LiveCopier& LiveCopiers::get(DeviceId device) {
  const ContextHandle context = engine_.own_context(device);
  const MutexLock lock(mutex_);
  std::unique_ptr<LiveCopier>& copier = copiers_[device];
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
