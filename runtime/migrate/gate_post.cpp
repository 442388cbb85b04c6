#include "migrate/gate_post.hpp"

#include <algorithm>
#include <atomic>

namespace vma {
namespace {
/// Programs make and destroy streams; from so many on, words of those that were not stopped in the
/// last gates go to others.
constexpr std::size_t stands_max = 1024;
constexpr std::uint64_t gates_remembered = 64;

bool has_written(const GatePost::Stand& stand) {
  if (stand.arrived == nullptr) return true;
  return std::atomic_ref(*stand.arrived).load(std::memory_order_acquire) >= stand.asked;
}
}  // namespace

GatePost::GatePost(Driver& driver, Watchdog& watchdog, Ledger& ledger)
    : driver_(driver), watchdog_(watchdog), ledger_(ledger) {}

GatePost::~GatePost() {
  open_word_.reset();
  // A stream that has not come to a gate that was given up writes its word yet.
  const auto pending = [](const auto& entry) { return !has_written(entry.second); };
  if (words_ && std::ranges::any_of(stands_, pending)) words_->keep_for_good();
  words_.reset();
  if (!retained_) return;
  ledger_.undo("the context of the words of gates", [&] { driver_.release_primary(*retained_); });
}

void GatePost::prepare(const GatePlan& plan) {
  ++prepared_;
  if (plan.stops.empty() && !words_) return;
  if (!words_) choose_context(plan);
  if (!open_word_) open_word_ = std::make_unique<StopWord>(*words_);
  for (const GateStop& stop : plan.stops) {
    Stand& stand = stands_[key(stop)];
    stand.prepared = prepared_;
    if (stand.arrived != nullptr) continue;
    if (spare_.empty()) {
      stand.arrived = words_->take();
    } else {
      stand.arrived = spare_.back();
      spare_.pop_back();
    }
  }
  drop_unused();
}

/// A primary context, since it lasts: the program may destroy any other under our words. One that
/// is active already costs nothing.
void GatePost::choose_context(const GatePlan& plan) {
  DeviceId device = driver_.context_device(plan.stops.front().stream.context);
  for (const GateStop& stop : plan.stops) {
    if (driver_.context_active(device)) break;
    device = driver_.context_device(stop.stream.context);
  }
  const ContextHandle context = driver_.retain_primary(device);
  retained_ = device;
  words_ = std::make_unique<PinnedWords>(driver_, context, ledger_);
}

void GatePost::drop_unused() {
  if (stands_.size() <= stands_max) return;
  for (auto it = stands_.begin(); it != stands_.end();) {
    if (it->second.prepared + gates_remembered >= prepared_) {
      ++it;
      continue;
    }
    if (has_written(it->second)) {
      spare_.push_back(it->second.arrived);
    } else {
      words_->keep_for_good();
    }
    it = stands_.erase(it);
  }
}

void GatePost::retire_words(const GatePlan& plan) noexcept {
  words_->keep_for_good();
  open_word_.reset();
  for (const GateStop& stop : plan.stops) {
    const auto known = stands_.find(key(stop));
    if (known != stands_.end()) known->second.arrived = nullptr;
  }
}

}  // namespace vma
