#include "memory/hook_list.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

/// A hook that runs on this thread, while the object lives. Takes the first hook after an id.
class HookList::Call {
 public:
  Call(HookList& list, std::uint64_t after_id) : list_(list), outer_(innermost) {
    const MutexLock lock(list_.mutex_);
    entry_ = list_.next(after_id);
    if (!entry_) return;
    ++entry_->running;
    innermost = this;
  }
  ~Call() {
    if (!entry_) return;
    innermost = outer_;
    const MutexLock lock(list_.mutex_);
    --entry_->running;
    list_.ended_.notify_all();
    // What the hooks own is released with `remove`, if it waits, and never after it has returned.
    if (entry_.use_count() > 1) entry_.reset();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Entry* entry() const noexcept { return entry_.get(); }

  static bool is_any() noexcept { return innermost != nullptr; }
  static bool is_of(const HookList& list) noexcept {
    for (const Call* call = innermost; call != nullptr; call = call->outer_) {
      if (&call->list_ == &list) return true;
    }
    return false;
  }
  /// Whether this thread is inside a hook of the entry.
  static bool is_inside(const Entry& entry) noexcept {
    for (const Call* call = innermost; call != nullptr; call = call->outer_) {
      if (call->entry_.get() == &entry) return true;
    }
    return false;
  }

 private:
  static thread_local const Call* innermost;
  HookList& list_;
  const Call* const outer_;
  std::shared_ptr<Entry> entry_;  // Null at the end of the list.
};

thread_local const HookList::Call* HookList::Call::innermost = nullptr;

std::uint64_t HookList::add(MoveHooks hooks) {
  auto entry = std::make_shared<Entry>();
  entry->hooks = std::move(hooks);
  const MutexLock lock(mutex_);
  entry->id = last_id_ + 1;
  entries_.push_back(std::move(entry));
  return ++last_id_;
}

void HookList::remove(std::uint64_t id) {
  MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->id == id; });
  if (found == entries_.end()) return;
  const std::shared_ptr<Entry> entry = std::move(*found);
  entries_.erase(found);
  if (!Call::is_inside(*entry)) {
    ended_.wait(lock, [&] { return entry->running == 0; });
  }
  lock.unlock();  // What the hooks own may be released here, and may call back into this list.
}

void HookList::disable(std::uint64_t id) noexcept {
  std::shared_ptr<Entry> removed;  // Released after the lock, or by the hook that runs.
  const MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->id == id; });
  if (found == entries_.end()) return;
  removed = std::move(*found);
  entries_.erase(found);
}

bool HookList::runs_here() const noexcept {
  return Call::is_of(*this);
}

bool HookList::any_runs_here() noexcept {
  return Call::is_any();
}

bool HookList::empty() const {
  const MutexLock lock(mutex_);
  return entries_.empty();
}

std::shared_ptr<HookList::Entry> HookList::next(std::uint64_t after_id) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->id > after_id; });
  return found == entries_.end() ? nullptr : *found;
}

void HookList::before(const MoveEvent& event) {
  std::uint64_t id = 0;
  try {
    while (true) {
      const Call call(*this, id);
      if (call.entry() == nullptr) return;
      id = call.entry()->id;
      if (call.entry()->hooks.before) call.entry()->hooks.before(event);
    }
  } catch (...) {
    MoveEvent stayed = event;
    stayed.moved = false;
    run_after(stayed, id);
    throw;
  }
}

std::size_t HookList::after(const MoveEvent& event) noexcept {
  return run_after(event, UINT64_MAX);
}

std::size_t HookList::run_after(const MoveEvent& event, std::uint64_t end_id) noexcept {
  std::size_t failed = 0;
  for (std::uint64_t id = 0;;) {
    const Call call(*this, id);
    if (call.entry() == nullptr || call.entry()->id >= end_id) return failed;
    id = call.entry()->id;
    if (!call.entry()->hooks.after) continue;
    try {
      call.entry()->hooks.after(event);
    } catch (const std::exception& error) {
      ++failed;
      log(LogLevel::warn, "an after-move hook threw an exception: {}", error.what());
    } catch (...) {
      ++failed;
      log(LogLevel::warn, "an after-move hook threw an exception of an unknown type");
    }
  }
}

}  // namespace vma
