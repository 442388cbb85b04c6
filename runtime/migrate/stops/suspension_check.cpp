#include "migrate/stops/suspension_check.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "migrate/stops/beating_kernel.hpp"
#include "migrate/stops/suspension.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// How long work is watched that must not run. It would show within a few microseconds.
constexpr microseconds watch_time(300);
/// What it wrote before may arrive for so long.
constexpr microseconds arrival_time(30);
/// How long the program's work may keep ours from beginning in its context.
constexpr milliseconds begin_limit(40);
/// For copies of the program that a suspension waits for.
constexpr milliseconds copies_limit(10);
/// How long it takes to suspend at most, from when our work has begun there.
constexpr milliseconds suspend_limit(100);
/// How long own work may take while the program stands. It takes microseconds.
constexpr std::chrono::seconds own_limit(1);
/// How long work may take to go on. GPUs with other processes switch every few milliseconds.
constexpr std::chrono::seconds go_on_limit(1);
/// As for a move; see `Suspension`.
constexpr std::chrono::seconds patience(2);
/// Each try that decides nothing may keep other moves waiting for `begin_limit`.
constexpr std::chrono::seconds pause_first(1), pause_last(8);
constexpr std::uint64_t kernel_limit_ns = 5'000'000'000;
constexpr int rounds = 3;  // The cost is that of the quickest.

constexpr const char* check_call = "the check of suspension";

Error failed(const std::string& what) {
  return {ErrorKind::unsupported, check_call, what};
}

Error not_now(const std::string& what) {
  return {ErrorKind::busy, check_call, what};
}

/// A kernel that counts, in a context of the runtime's own.
class Counter {
 public:
  Counter(Driver& driver, ContextHandle own, Ledger& ledger)
      : driver_(driver), own_(own), ledger_(ledger) {
    try {
      words_ = static_cast<Words*>(driver.allocate_pinned(own, sizeof(Words)));
      stream_ = driver.create_stream(own, StreamKind::non_blocking);
      const Kernel* const kernel = &beating_kernel();
      kernel_ = driver.load_kernels(own, {&kernel, 1}, beating_image()).front();
    } catch (...) {
      release();
      throw;
    }
  }
  ~Counter() {
    end();
    if (has_ended(go_on_limit)) {
      release();
    } else {
      ledger_.leaked("a kernel that does not end, and its stream and words");
    }
  }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  /// It runs until `end`, and only for one beat after that.
  void launch() {
    driver_.launch(stream_, kernel_, {{1, 1, 1}, {1, 1, 1}},
                   KernelArguments::of(&words_->beats, &words_->end, kernel_limit_ns));
  }
  void end() noexcept { std::atomic_ref(words_->end).store(1, std::memory_order_release); }
  std::uint64_t beats() const noexcept {
    return std::atomic_ref(words_->beats).load(std::memory_order_acquire);
  }
  bool counts(std::chrono::nanoseconds limit) const { return counts_from(beats(), limit); }
  bool counts_from(std::uint64_t before, std::chrono::nanoseconds limit) const {
    Clock& clock = driver_.clock();
    return poll_until(clock, clock.now() + limit, [&] { return beats() != before; });
  }
  bool has_ended(std::chrono::nanoseconds limit) noexcept {
    try {
      return driver_.wait_stream(stream_, driver_.clock().now() + limit);
    } catch (const std::exception& error) {
      log(LogLevel::debug, "{}: {}", check_call, error.what());
      return false;
    }
  }

 private:
  struct Words {
    std::uint64_t beats, end;
  };

  void release() noexcept {
    if (!is_none(kernel_)) ledger_.undo("a kernel", [&] { driver_.unload_kernel(kernel_); });
    if (!is_none(stream_.handle)) {
      ledger_.undo("a stream", [&] { driver_.destroy_stream(stream_); });
    }
    if (words_ != nullptr) {
      ledger_.undo("pinned memory", [&] { driver_.free_pinned(own_, words_); });
    }
  }

  Driver& driver_;
  const ContextHandle own_;
  Ledger& ledger_;
  Words* words_ = nullptr;
  BoundStream stream_;
  KernelHandle kernel_{};
};

/// Suspensions of one GPU, and what they cost.
class Suspensions {
 public:
  Suspensions(Driver& driver, Watchdog& watchdog, DeviceId gpu)
      : driver_(driver), watchdog_(watchdog), gpu_(gpu) {}

  /// Everything goes on when it returns or throws, unless the driver refuses that for good.
  template <typename Body>
  void during(Suspension::Of of, Body&& body) {
    Clock& clock = driver_.clock();
    Suspension suspension(driver_, watchdog_, {gpu_}, patience, of);
    suspension.close(clock.now() + copies_limit);
    const std::chrono::nanoseconds off = clock.now() - suspension.begun();
    body();
    const TimePoint begun = clock.now();
    suspension.open();
    if (of == Suspension::Of::everything) return;
    suspend = std::min(suspend, off);
    resume = std::min<std::chrono::nanoseconds>(resume, clock.now() - begun);
  }

  std::chrono::nanoseconds suspend = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds resume = std::chrono::nanoseconds::max();

 private:
  Driver& driver_;
  Watchdog& watchdog_;
  const DeviceId gpu_;
};

/// Step 1.
void require_that_kernels_stand(Driver& driver, Counter& counter, Suspensions& suspensions) {
  counter.launch();
  if (!counter.counts_from(0, go_on_limit)) {
    throw failed("a kernel of the runtime's own does not begin");
  }
  bool stands = false;
  suspensions.during(Suspension::Of::everything, [&] {
    nap_until(driver.clock(), driver.clock().now() + arrival_time);
    stands = !counter.counts(watch_time);
  });
  if (!stands) throw failed("a kernel runs on while it is suspended");
  if (!counter.counts(go_on_limit)) throw failed("a suspended kernel does not go on");
  counter.end();
  if (!counter.has_ended(go_on_limit)) throw failed("a suspended kernel goes on, but does not end");
}

/// Lets the probe go on if nothing is suspended in time, since it may stand in the way of the
/// program, and in any case at the end.
class ProbeLimit {
 public:
  ProbeLimit(ProgramProbe& probe, Watchdog& watchdog) : probe_(probe), watchdog_(watchdog) {}
  ~ProbeLimit() {
    watchdog_.disarm(ticket_);
    probe_.open();
  }
  ProbeLimit(const ProbeLimit&) = delete;
  ProbeLimit& operator=(const ProbeLimit&) = delete;

  void begin(TimePoint deadline) {
    ticket_ = watchdog_.arm(deadline, [this] {
      passed_ = true;
      probe_.open();
    });
  }
  void end() {
    watchdog_.disarm(std::exchange(ticket_, Watchdog::Ticket::none));
    if (passed_) throw not_now("another thread keeps channels or copies busy");
  }

 private:
  ProgramProbe& probe_;
  Watchdog& watchdog_;
  std::atomic<bool> passed_{false};
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
};

/// Step 2. Requires: the counter was told to end; the probe has begun.
void require_that_the_program_stands(Driver& driver, Watchdog& watchdog, Counter& counter,
                                     ProgramProbe& probe, Suspensions& suspensions) {
  Clock& clock = driver.clock();
  bool stands = false, own_runs = false;
  ProbeLimit limit(probe, watchdog);
  limit.begin(clock.now() + suspend_limit);
  suspensions.during(Suspension::Of::program, [&] {
    limit.end();
    probe.open();
    counter.launch();
    own_runs = counter.has_ended(own_limit);
    const auto goes_on = [&] { return probe.has_gone_on(); };
    stands = !poll_until(clock, clock.now() + watch_time, goes_on);
  });
  if (!stands) throw failed("a stream of the program's context runs on while it is suspended");
  if (!probe.goes_on(clock.now() + go_on_limit)) {
    throw failed("a suspended stream of the program's context does not go on");
  }
  if (!own_runs) {
    throw failed("the runtime's own context stands, too, while the program is suspended");
  }
}

}  // namespace

SuspensionFinding SuspensionCheck::finding(DeviceId gpu) const {
  const MutexLock lock(mutex_);
  const auto found = tried_.find(gpu);
  return found == tried_.end() ? SuspensionFinding{} : found->second.finding;
}

SuspensionFinding SuspensionCheck::check(DeviceId gpu, ContextHandle program, ContextHandle own) {
  if (is_due(gpu)) {
    const TimePoint begun = driver_.clock().now();
    note(gpu, try_all(gpu, program, own));
    log(LogLevel::debug, "gpu({}): {} took {:.0f} ms", index(gpu), check_call,
        in_ms(driver_.clock().now() - begun));
  }
  return finding(gpu);
}

bool SuspensionCheck::is_due(DeviceId gpu) const {
  const MutexLock lock(mutex_);
  const auto found = tried_.find(gpu);
  return found == tried_.end() ||
         (found->second.finding.state == SuspensionFinding::State::unknown &&
          driver_.clock().now() >= found->second.again);
}

void SuspensionCheck::note_refused(DeviceId gpu, const Error& why) {
  using State = SuspensionFinding::State;
  const bool for_good = why.kind() == ErrorKind::unsupported;
  note(gpu, {for_good ? State::off : State::unknown, why.what(), {}, {}});
}

void SuspensionCheck::note_worked() {
  const MutexLock lock(mutex_);
  for (auto& [gpu, tried] : tried_) tried.pause = {};
}

void SuspensionCheck::note(DeviceId gpu, SuspensionFinding finding) {
  {
    const MutexLock lock(mutex_);
    Tried& tried = tried_[gpu];
    if (tried.finding.state == SuspensionFinding::State::off) return;
    tried.finding = finding;
    if (finding.state == SuspensionFinding::State::unknown) {
      tried.pause = std::clamp<std::chrono::nanoseconds>(2 * tried.pause, pause_first, pause_last);
      tried.again = driver_.clock().now() + tried.pause;
    }
  }
  switch (finding.state) {
    case SuspensionFinding::State::usable:
      return log(LogLevel::info, "gpu({}): the program's work can be suspended, in {} us",
                 index(gpu), finding.suspend / microseconds(1));
    case SuspensionFinding::State::off:
      return log(LogLevel::info,
                 "gpu({}): moves wait for the program's work instead of suspending it: {}",
                 index(gpu), finding.why);
    case SuspensionFinding::State::unknown:
      return log(LogLevel::info,
                 "gpu({}): moves wait for the program's work for now instead of suspending it: {}",
                 index(gpu), finding.why);
  }
}

SuspensionFinding SuspensionCheck::try_all(DeviceId gpu, ContextHandle program, ContextHandle own) {
  using State = SuspensionFinding::State;
  try {
    Suspensions suspensions(driver_, watchdog_, gpu);
    Counter counter(driver_, own, ledger_);
    require_that_kernels_stand(driver_, counter, suspensions);
    if (!in_program(gpu, program, own)) {
      throw not_now(
          "the program's work, or a thread of it that waits for that, keeps work of ours "
          "from beginning in its context");
    }
    require_that_the_program_stands(driver_, watchdog_, counter, *probes_[gpu], suspensions);
    for (int round = 1; round < rounds; ++round) {
      suspensions.during(Suspension::Of::program, [] {});
    }
    probes_.erase(gpu);
    return {State::usable, {}, suspensions.suspend, suspensions.resume};
  } catch (const Error& error) {
    const bool later = error.kind() != ErrorKind::unsupported;  // Nobody has seen that it fails.
    if (!later) probes_.erase(gpu);
    return {later ? State::unknown : State::off, error.what(), {}, {}};
  }
}

/// Whether our work has begun there.
bool SuspensionCheck::in_program(DeviceId gpu, ContextHandle program, ContextHandle own) {
  std::unique_ptr<ProgramProbe>& probe = probes_[gpu];
  if (probe && probe->context() != program) probe.reset();
  try {
    if (!probe) probe = std::make_unique<ProgramProbe>(driver_, program, own, ledger_);
    return probe->begin(driver_.clock().now() + begin_limit);
  } catch (const Error& error) {  // The context may be gone, and the next one be another.
    throw not_now(
        fmt::format("nothing can be enqueued in the program's context: {}", error.what()));
  }
}

}  // namespace vma
