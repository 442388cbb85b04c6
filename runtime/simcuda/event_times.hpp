#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"

#include <map>
#include <optional>

namespace vma {

/// When the latest record of each event that measures time was reached, by this computer's clock.
/// Any thread.
class EventTimes {
 public:
  static EventTimes& of_process() {
    static EventTimes& times =
        *new EventTimes;  // Never destroyed, as the machine's threads use it.
    return times;
  }

  void add(EventHandle event) {
    const MutexLock lock(mutex_);
    times_.emplace(event, std::nullopt);
  }
  void remove(EventHandle event) {
    const MutexLock lock(mutex_);
    times_.erase(event);
  }
  bool measures(EventHandle event) const {
    const MutexLock lock(mutex_);
    return times_.contains(event);
  }
  /// Does nothing for an event that was removed meanwhile.
  void reached(EventHandle event) {
    const MutexLock lock(mutex_);
    if (const auto found = times_.find(event); found != times_.end()) {
      found->second = SteadyClock().now();
    }
  }
  std::optional<TimePoint> time_of(EventHandle event) const {
    const MutexLock lock(mutex_);
    const auto found = times_.find(event);
    return found == times_.end() ? std::nullopt : found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<EventHandle, std::optional<TimePoint>> times_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
