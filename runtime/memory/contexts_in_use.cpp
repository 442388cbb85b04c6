#include "memory/contexts_in_use.hpp"

#include "base/log.hpp"
#include "driver/native_codes.hpp"

#include <algorithm>
#include <exception>

namespace vma {

bool context_is_broken(int native) noexcept {
  return (native >= native_illegal_address && native <= native_launch_failed) ||
         native == native_deinitialized;
}

ContextsInUse::ContextsInUse(Driver& driver, const Topology& topology, Ledger& ledger)
    : driver_(driver), topology_(topology), ledger_(ledger) {}

ContextsInUse::~ContextsInUse() {
  const MutexLock lock(mutex_);
  for (const auto& [context, events] : events_) {
    for (const EventHandle event : events) destroy(event);
  }
  for (const auto& [device, context] : primaries_) release_primary(device);
}

std::vector<ContextHandle> ContextsInUse::list() {
  std::vector<ContextHandle> contexts;
  const ContextHandle current = driver_.current_context();
  for (const DeviceId device : topology_.devices()) {
    const ContextHandle primary = this->primary(device);
    if (!is_none(primary)) contexts.push_back(primary);
  }
  std::vector<ContextHandle> more;
  if (named_) more = named_();
  more.push_back(current);
  const MutexLock lock(mutex_);
  for (const ContextHandle context : more) {
    const bool seen = std::ranges::find(contexts, context) != contexts.end();
    if (!is_none(context) && !seen && !own_.contains(context)) contexts.push_back(context);
  }
  return contexts;
}

ContextHandle ContextsInUse::primary(DeviceId device) {
  {
    const MutexLock lock(mutex_);
    const auto known = primaries_.find(device);
    if (known != primaries_.end()) return known->second;
  }
  if (!driver_.context_active(device)) return {};
  const ContextHandle retained = driver_.retain_primary(device);
  bool first = false;
  try {
    const MutexLock lock(mutex_);
    first = primaries_.emplace(device, retained).second;
  } catch (...) {
    release_primary(device);
    throw;
  }
  if (!first) release_primary(device);  // Another thread has retained it meanwhile.
  return retained;
}

void ContextsInUse::release_primary(DeviceId device) noexcept {
  ledger_.undo("a primary context", [&] { driver_.release_primary(device); });
}

void ContextsInUse::exclude(ContextHandle own) {
  const MutexLock lock(mutex_);
  own_.insert(own);
}

void ContextsInUse::forget(ContextHandle own) noexcept {
  std::vector<EventHandle> events;
  {
    const MutexLock lock(mutex_);
    const auto kept = events_.find(own);
    if (kept != events_.end()) {
      events.swap(kept->second);
      events_.erase(kept);
    }
    own_.erase(own);
  }
  for (const EventHandle event : events) destroy(event);
}

void ContextsInUse::destroy(EventHandle event) noexcept {
  try {
    driver_.destroy_event(event);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "an event went with its context: {}", error.what());
  }
}

bool ContextsInUse::lasts(ContextHandle context) const {
  return own_.contains(context) || std::ranges::any_of(primaries_, [&](const auto& primary) {
           return primary.second == context;
         });
}

EventHandle ContextsInUse::take_event(ContextHandle context) {
  {
    const MutexLock lock(mutex_);
    std::vector<EventHandle>& events = events_[context];
    if (!events.empty()) {
      const EventHandle event = events.back();
      events.pop_back();
      return event;
    }
  }
  return driver_.create_event(context);
}

void ContextsInUse::give_back(ContextHandle context, EventHandle event) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (lasts(context)) {
      events_[context].push_back(event);
      return;
    }
  } catch (const std::exception&) {  // No memory to keep it.
  }
  destroy(event);
}

void ContextsInUse::drain() {
  struct Marked {
    ContextHandle context{};
    EventHandle event{};
  };
  std::vector<Marked> marked;
  const auto unless_broken = [](auto&& step) {
    try {
      step();
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;
      log(LogLevel::warn, "a context is broken and counts as drained: {}", error.what());
    }
  };
  const auto give_all_back = [&] {
    for (const Marked& mark : marked) give_back(mark.context, mark.event);
  };
  try {
    const std::vector<ContextHandle> contexts = list();
    marked.reserve(contexts.size());
    for (const ContextHandle context : contexts) {
      if (!driver_.has_context_hold()) {
        unless_broken([&] { driver_.synchronize_context(context); });
        continue;
      }
      unless_broken([&] {
        marked.push_back({context, take_event(context)});
        driver_.record_context(context, marked.back().event);
      });
    }
    for (const Marked& mark : marked) unless_broken([&] { driver_.wait_event(mark.event, never); });
  } catch (...) {
    give_all_back();
    throw;
  }
  give_all_back();
}

}  // namespace vma
