#include "migrate/stops/program_probe.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

namespace vma {
namespace {

std::uint64_t load(const std::uint64_t& word) noexcept {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

Address address_of_word(const std::uint64_t& word) noexcept {
  return address_of(&word);
}

}  // namespace

struct ProgramProbe::Work {
  struct Words {  // In pinned memory, each written by one operation.
    std::uint64_t open;
    std::array<std::uint64_t, lanes_max> begun, gone_on;
  };

  Work(Driver& which, ContextHandle program_context, Words* pinned)
      : driver(which), program(program_context), words(pinned) {}

  void enqueue() noexcept;
  void enqueue(int lane);
  bool begun() const noexcept {
    return std::ranges::any_of(words->begun,
                               [this](const std::uint64_t& word) { return load(word) >= round; });
  }
  void open() noexcept { std::atomic_ref(words->open).store(round, std::memory_order_release); }
  /// Nothing more is to be enqueued. Whether the thread has returned by then.
  bool give_up(TimePoint deadline) {
    given_up = true;
    return poll_until(driver.clock(), deadline, [this] { return returned.load(); });
  }

  Driver& driver;
  const ContextHandle program;
  Words* const words;
  std::uint64_t round = 0;  // Changed while there is no thread.
  std::atomic<bool> given_up{false}, returned{true}, failed{false};
  // Those of the thread, until it has returned.
  std::array<BoundStream, lanes_max> streams{};
  std::exception_ptr failure;  // Set before `failed`.
};

ProgramProbe::ProgramProbe(Driver& driver, ContextHandle program, ContextHandle words_context,
                           Ledger& ledger)
    : driver_(driver),
      program_(program),
      words_context_(words_context),
      ledger_(ledger),
      work_(std::make_shared<Work>(
          driver, program,
          static_cast<Work::Words*>(driver.allocate_pinned(words_context, sizeof(Work::Words))))) {}

ProgramProbe::~ProgramProbe() {
  constexpr std::chrono::seconds patience(2);
  const TimePoint deadline = driver_.clock().now() + patience;
  work_->open();
  if (!work_->give_up(deadline)) {
    task_->abandon();
    ledger_.leaked("a thread inside a call in a context of the program, its words and streams");
    return;
  }
  if (task_) task_->join();
  const bool ended = all_ended(deadline);
  for (const BoundStream stream : work_->streams) {
    if (is_none(stream.handle)) continue;
    ledger_.undo("a stream in a context of the program", [&] { driver_.destroy_stream(stream); });
  }
  if (ended) {
    ledger_.undo("pinned memory", [&] { driver_.free_pinned(words_context_, work_->words); });
  } else {
    ledger_.leaked("words that work in a context of the program may still write");
  }
}

/// A refusal means that the context is gone, with all of its work.
bool ProgramProbe::all_ended(TimePoint deadline) noexcept {
  return std::ranges::all_of(work_->streams, [&](const BoundStream stream) {
    try {
      return is_none(stream.handle) || driver_.wait_stream(stream, deadline);
    } catch (const std::exception&) {
      return true;
    }
  });
}

bool ProgramProbe::begin(TimePoint deadline) {
  if (!work_->returned) return false;  // Still in the call of an earlier try.
  if (task_) std::exchange(task_, nullptr)->join();
  ++work_->round;
  work_->given_up = work_->returned = work_->failed = false;
  try {
    task_ = driver_.executor().spawn("vmart probe", [work = work_] {
      work->enqueue();
      work->returned = true;
    });
  } catch (...) {
    work_->returned = true;
    throw;
  }
  poll_until(driver_.clock(), deadline, [this] { return work_->begun() || work_->failed; });
  if (!work_->give_up(deadline) || !work_->begun()) {
    open();
    if (work_->failed) std::rethrow_exception(work_->failure);
    return false;
  }
  for (int lane = 0; lane < lanes_max; ++lane) {
    begun_in_time_[lane] = load(work_->words->begun[lane]) >= work_->round;
  }
  return true;
}

/// On the thread of its own. Once it is given up, only a call that it is in may still use the
/// driver, which may not outlive that.
void ProgramProbe::Work::enqueue() noexcept {
  constexpr std::chrono::milliseconds next_after(2);
  try {
    for (int lane = 0; lane < lanes_max && !given_up && !begun(); ++lane) {
      enqueue(lane);
      if (given_up) return;
      poll_until(driver.clock(), driver.clock().now() + next_after,
                 [this] { return given_up || begun(); });
    }
  } catch (...) {
    failure = std::current_exception();
    failed = true;
  }
}

void ProgramProbe::Work::enqueue(int lane) {
  using Kind = WordOperation::Kind;
  BoundStream& stream = streams[lane];
  if (is_none(stream.handle)) stream = driver.create_stream(program, StreamKind::non_blocking);
  if (given_up) return;
  const WordOperation operations[] = {
      {Kind::write, address_of_word(words->begun[lane]), round},
      {Kind::wait_until_at_least, address_of_word(words->open), round},
      {Kind::write, address_of_word(words->gone_on[lane]), round}};
  driver.batch(stream, operations);
}

void ProgramProbe::open() noexcept {
  work_->open();
}

bool ProgramProbe::has_gone_on() const noexcept {
  return std::ranges::any_of(work_->words->gone_on, [this](const std::uint64_t& word) {
    return load(word) >= work_->round;
  });
}

bool ProgramProbe::goes_on(TimePoint deadline) {
  return poll_until(driver_.clock(), deadline, [this] {
    for (int lane = 0; lane < lanes_max; ++lane) {
      if (begun_in_time_[lane] && load(work_->words->gone_on[lane]) < work_->round) return false;
    }
    return true;
  });
}

}  // namespace vma
