#include "migrate/gates/gate_latch.hpp"

#include "base/check.hpp"

#include <chrono>

namespace vma {

bool GateLatch::advance(State from, State to) noexcept {
  return state_.compare_exchange_strong(from, to);
}

void GateLatch::begin(const EnqueuedStops& stops, TimePoint deadline, TimePoint unstopped) {
  stops_ = &stops;
  opened_ = TimePoint(0);
  state_ = State::closing;
  unstopped_until_ = unstopped;
  ticket_ = post_.watchdog().arm_repeatedly(deadline, [this] { return open_late(); });
}

void GateLatch::be_back_by(TimePoint deadline, TimePoint unstopped) noexcept {
  unstopped_until_ = unstopped;
  post_.watchdog().rearm(ticket_, deadline);
}

/// On the watchdog's thread: the gate's thread is late, probably in a driver call. While a program
/// launches a graph and has many of them under way, calls take as long as one of its steps. Until a
/// stream has arrived, that stops nothing, and the gate can wait; but not for long, because a free
/// of the program may wait for the settling work, and this thread behind it.
TimePoint GateLatch::open_late() noexcept {
  constexpr std::chrono::milliseconds look_period(1);
  const TimePoint now = clock_.now();
  const bool nothing_stands = state_ == State::closing && !stops_->arrivals().any_now();
  if (nothing_stands && now < unstopped_until_.load()) return later(now, look_period);
  any_when_opened_ = stops_->arrivals().any_now();
  all_when_opened_ = stops_->arrivals().all_now();
  if (!advance(State::closing, State::open) && !advance(State::closed, State::open)) return never;
  open_word_->open(stops_->epoch());
  no_copy_scopes_.end();
  opened_ = clock_.now();
  opened_late_();
  return never;
}

void GateLatch::open() noexcept {
  // The store comes first: until then everything is stopped.
  if (state_.exchange(State::open) != State::open) {
    open_word_->open(stops_->epoch());
    opened_ = clock_.now();
    open_word_->set_dark(false);
  }
  no_copy_scopes_.end();
  post_.watchdog().disarm(ticket_);
  ticket_ = Watchdog::Ticket::none;
  open_word_ = nullptr;
}

bool GateLatch::close() noexcept {
  const bool stands = !open_word_->is_open(stops_->epoch());
  return stands && advance(State::closing, State::closed);
}

bool GateLatch::commit() noexcept {
  VMART_CHECK(ticket_ != Watchdog::Ticket::none, "only a closed gate is committed");
  open_word_->set_dark(true);
  // I2: the watchdog may have opened the gate, and process exit the word.
  if (!open_word_->is_open(stops_->epoch()) && advance(State::closed, State::committed))
    return true;
  open_word_->set_dark(false);
  return false;
}

}  // namespace vma
