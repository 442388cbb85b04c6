#include "migrate/stops/program_probe.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

namespace vma {
namespace {

std::uint64_t load(const std::uint64_t& word) noexcept {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

Address address_of_word(const std::uint64_t& word) noexcept {
  return address_of(&word);
}

}  // namespace

ProgramProbe::ProgramProbe(Driver& driver, ContextHandle program, ContextHandle words_context,
                           Ledger& ledger)
    : driver_(driver),
      program_(program),
      words_context_(words_context),
      ledger_(ledger),
      words_(static_cast<Words*>(driver.allocate_pinned(words_context, sizeof(Words)))) {}

ProgramProbe::~ProgramProbe() {
  given_up_ = true;
  open();
  if (task_) task_->join();
  constexpr std::chrono::seconds patience(10);
  const bool ended = all_ended(driver_.clock().now() + patience);
  for (const BoundStream stream : streams_) {
    if (is_none(stream.handle)) continue;
    ledger_.undo("a stream in a context of the program", [&] { driver_.destroy_stream(stream); });
  }
  if (ended) {
    ledger_.undo("pinned memory", [&] { driver_.free_pinned(words_context_, words_); });
  } else {
    ledger_.leaked("words that work in a context of the program may still write");
  }
}

/// A refusal means that the context is gone, with all of its work.
bool ProgramProbe::all_ended(TimePoint deadline) noexcept {
  return std::ranges::all_of(streams_, [&](const BoundStream stream) {
    try {
      return is_none(stream.handle) || driver_.wait_stream(stream, deadline);
    } catch (const std::exception&) {
      return true;
    }
  });
}

bool ProgramProbe::begin(TimePoint deadline) {
  if (!returned_) return false;  // Still in the call of an earlier try.
  if (task_) task_->join();
  ++round_;
  given_up_ = returned_ = failed_ = false;
  task_ = driver_.executor().spawn("vmart probe", [this] {
    enqueue();
    returned_ = true;
  });
  poll_until(driver_.clock(), deadline, [this] { return begun() || failed_; });
  if (!begun()) {
    given_up_ = true;
    open();
    if (failed_) std::rethrow_exception(failure_);
    return false;
  }
  for (int lane = 0; lane < lanes_max; ++lane) {
    begun_in_time_[lane] = load(words_->begun[lane]) >= round_;
  }
  return true;
}

/// On the thread of its own.
void ProgramProbe::enqueue() noexcept {
  constexpr std::chrono::milliseconds next_after(2);
  using Kind = WordOperation::Kind;
  try {
    for (int lane = 0; lane < lanes_max && !given_up_ && !begun(); ++lane) {
      BoundStream& stream = streams_[lane];
      if (is_none(stream.handle)) {
        stream = driver_.create_stream(program_, StreamKind::non_blocking);
      }
      const WordOperation operations[] = {
          {Kind::write, address_of_word(words_->begun[lane]), round_},
          {Kind::wait_until_at_least, address_of_word(words_->open), round_},
          {Kind::write, address_of_word(words_->gone_on[lane]), round_}};
      driver_.batch(stream, operations);
      poll_until(driver_.clock(), driver_.clock().now() + next_after,
                 [this] { return given_up_ || begun(); });
    }
  } catch (...) {
    failure_ = std::current_exception();
    failed_ = true;
  }
}

bool ProgramProbe::begun() const noexcept {
  return std::ranges::any_of(words_->begun,
                             [this](const std::uint64_t& word) { return load(word) >= round_; });
}

void ProgramProbe::open() noexcept {
  std::atomic_ref(words_->open).store(round_, std::memory_order_release);
}

bool ProgramProbe::has_gone_on() const noexcept {
  return std::ranges::any_of(words_->gone_on,
                             [this](const std::uint64_t& word) { return load(word) >= round_; });
}

bool ProgramProbe::goes_on(TimePoint deadline) {
  return poll_until(driver_.clock(), deadline, [this] {
    for (int lane = 0; lane < lanes_max; ++lane) {
      if (begun_in_time_[lane] && load(words_->gone_on[lane]) < round_) return false;
    }
    return true;
  });
}

}  // namespace vma
