#include "migrate/hold.hpp"

#include "base/check.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>

namespace vma {
namespace {

// The posts of the process, for `open_all`, which may take no lock.
constexpr std::size_t posts_max = 256;
std::array<std::atomic<HoldPost*>, posts_max> posts{};

void enlist(HoldPost* from, HoldPost* to) noexcept {
  for (std::atomic<HoldPost*>& post : posts) {
    HoldPost* expected = from;
    if (post.compare_exchange_strong(expected, to)) return;
  }
}

void prepare_for_exit() {
  static const bool prepared = [] {
    set_last_words(&HoldPost::open_all);
    return std::atexit([] { HoldPost::open_all(); }) == 0;
  }();
  static_cast<void>(prepared);
}

template <typename Body>
void undo(Ledger& ledger, const char* what, Body&& body) noexcept {
  try {
    body();
  } catch (const std::exception& error) {
    ledger.leaked(fmt::format("{} that holds stand on: {}", what, error.what()));
  }
}

}  // namespace

HoldPost::HoldPost(Driver& driver, BoundStream stream, Ledger& ledger)
    : driver_(driver), ledger_(ledger), stream_(stream), process_(getpid()) {
  event_ = driver.create_event(stream.context);
  try {
    word_ = static_cast<std::uint64_t*>(driver.allocate_pinned(stream.context, sizeof *word_));
  } catch (...) {
    undo(ledger_, "an event", [&] { driver_.destroy_event(event_); });
    throw;
  }
  prepare_for_exit();
  enlist(nullptr, this);
}

void HoldPost::open_all() noexcept {
  const pid_t here = getpid();
  for (const std::atomic<HoldPost*>& post : posts) {
    HoldPost* standing = post.load();
    // A forked child that exits has its parent's posts, and its parent's words.
    if (!standing || standing->process_ != here || standing->dark_) continue;
    standing->open(UINT64_MAX);
  }
}

HoldPost::~HoldPost() {
  enlist(this, nullptr);
  open(epoch_);
  undo(ledger_, "a word", [&] { driver_.free_pinned(stream_.context, word_); });
  undo(ledger_, "an event", [&] { driver_.destroy_event(event_); });
}

std::uint64_t HoldPost::close() {
  const std::uint64_t epoch = ++epoch_;
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word_), epoch};
  try {
    driver_.batch(stream_, {&wait, 1});
    driver_.record(event_, stream_);
  } catch (...) {
    open(epoch);
    throw;
  }
  return epoch;
}

void HoldPost::open(std::uint64_t epoch) noexcept {
  // A device reads the word over the bus; a release store is all that it needs.
  // Never lower than it was: what was opened for good stays open.
  std::atomic_ref<std::uint64_t> word(*word_);
  std::uint64_t open_to = word.load(std::memory_order_relaxed);
  while (open_to < epoch &&
         !word.compare_exchange_weak(open_to, epoch, std::memory_order_release)) {
  }
}

Hold::Hold(Driver& driver, ContextsInUse& contexts, HoldPost& post, Watchdog& watchdog,
           std::chrono::nanoseconds patience)
    : driver_(driver), contexts_(contexts), post_(post), watchdog_(watchdog), patience_(patience) {}

Hold::~Hold() {
  open();
}

void Hold::take_events() {
  for (const ContextHandle context : contexts_.list()) {
    // Made before anything stops: to make an event in a stopped context may hang.
    try {
      held_.push_back({context, contexts_.take_event(context)});
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;  // Nothing of a broken context runs any more.
    }
  }
}

void Hold::close(TimePoint deadline) {
  VMART_CHECK(state_ == State::open && held_.empty(), "a hold is closed once");
  constexpr int parts_of_first_try = 64;
  try {
    take_events();
    Clock& clock = driver_.clock();
    TimePoint slice = (deadline - clock.now()) / parts_of_first_try;
    while (true) {
      const TimePoint try_deadline = std::min(deadline, clock.now() + slice);
      ++tries_;
      try {
        return try_close(try_deadline);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::busy || try_deadline == deadline) throw;
      }
      slice *= 4;
      await_rest(std::min(deadline, clock.now() + slice));  // Open: what was cut in two can end.
    }
  } catch (...) {
    open();
    throw;
  }
}

void Hold::try_close(TimePoint deadline) {
  epoch_ = post_.close();
  state_ = State::closing;
  arm(deadline);
  try {
    stop_all();
    if (!await_rest(deadline) || !advance(State::closing, State::closed)) {
      throw Error(
          ErrorKind::busy, "vma::migrate",
          fmt::format("the work submitted before did not end within the limit, tried {} times",
                      tries_));
    }
  } catch (...) {
    let_go();
    throw;
  }
  alive();
}

bool Hold::advance(State from, State to) noexcept {
  return state_.compare_exchange_strong(from, to);
}

void Hold::arm(TimePoint deadline) {
  watchdog_.arm(deadline, [this] {
    if (advance(State::closing, State::open) || advance(State::closed, State::open)) {
      post_.open(epoch_);
    }
  });
}

void Hold::alive() {
  watchdog_.disarm();
  arm(driver_.clock().now() + patience_);
}

void Hold::begin_dark() {
  post_.set_dark(true);
  if (advance(State::closed, State::dark)) return;
  post_.set_dark(false);
  throw Error(ErrorKind::busy, "vma::migrate",
              "a driver call stood for longer than the limit (another thread in cuCtxDestroy?), so "
              "the held work was let go");
}

void Hold::end_dark() noexcept {
  VMART_CHECK(advance(State::dark, State::closed), "what is dark was begun");
  post_.set_dark(false);
}

void Hold::let_go() noexcept {
  watchdog_.disarm();
  if (state_.exchange(State::open) != State::open) post_.open(epoch_);
  post_.set_dark(false);
}

void Hold::stop_all() {
  for (const Held& held : held_) {
    try {
      driver_.record_context(held.context, held.at_rest);
      driver_.hold_context(held.context, post_.event());
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;  // Nothing of a broken context runs any more.
    }
  }
}

bool Hold::await_rest(TimePoint deadline) {
  for (const Held& held : held_) {
    try {
      if (!driver_.wait_event(held.at_rest, deadline)) return false;
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;  // Nothing of a broken context runs any more.
    }
  }
  return true;
}

void Hold::open() noexcept {
  let_go();
  for (const Held& held : held_) {
    if (!is_none(held.at_rest)) contexts_.give_back(held.context, held.at_rest);
  }
  held_.clear();
}

}  // namespace vma
