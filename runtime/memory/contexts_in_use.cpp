#include "memory/contexts_in_use.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "driver/native_codes.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>

namespace vma {
namespace {

/// Those that the program has told of.
struct ToldContexts {
  std::mutex mutex;
  std::set<ContextHandle> contexts;
  static ToldContexts& of_process() {
    static Immortal<ToldContexts> only;
    return *only;
  }
};

}  // namespace

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

void ContextsInUse::note_created(ContextHandle context) {
  ToldContexts& told = ToldContexts::of_process();
  const std::lock_guard lock(told.mutex);
  told.contexts.insert(context);
}

void ContextsInUse::note_destroyed(ContextHandle context) noexcept {
  ToldContexts& told = ToldContexts::of_process();
  const std::lock_guard lock(told.mutex);
  told.contexts.erase(context);
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
  {
    ToldContexts& told = ToldContexts::of_process();
    const std::lock_guard lock(told.mutex);
    more.insert(more.end(), told.contexts.begin(), told.contexts.end());
  }
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
    log(LogLevel::debug, "an event was destroyed with its context: {}", error.what());
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

std::vector<ContextHandle> ContextsInUse::await_work() {
  std::vector<ContextHandle> contexts = list();
  for (const ContextHandle context : contexts) {
    try {
      await_work(context);
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;
      log(LogLevel::warn, "a context is broken and is no longer waited for: {}", error.what());
    }
  }
  return contexts;
}

void ContextsInUse::await_work(ContextHandle context) {
  try {
    driver_.synchronize_context(context);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory || !driver_.has_context_hold()) throw;
    wait_for_mark(context);
  }
}

void ContextsInUse::wait_for_mark(ContextHandle context) {
  const EventHandle event = take_event(context);
  try {
    driver_.record_context(context, event);
    driver_.wait_event(event, never);
  } catch (...) {
    give_back(context, event);
    throw;
  }
  give_back(context, event);
}

}  // namespace vma
