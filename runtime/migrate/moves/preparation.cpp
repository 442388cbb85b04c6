#include "migrate/moves/preparation.hpp"

#include "base/log.hpp"
#include "migrate/stops/stop_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace vma {

Preparation::Preparation(Memory& memory, LiveCopiers& copiers, Stops& stops)
    : memory_(memory), copiers_(copiers), stops_(stops) {
  look_ahead();
}

Preparation::~Preparation() {
  stop();
}

void Preparation::begin_for(Address scope) noexcept {
  begin_suspensions();
  try {
    for (const AttachedStreams::Stream& stream : stops_.attached().in_scope(scope)) {
      begin(Kind::gate, stream.device, [this, device = stream.device] { prepare(device); });
    }
  } catch (const std::bad_alloc&) {  // The first move will take longer.
  }
}

void Preparation::begin_suspensions() noexcept {
  if (!stops_.suspends()) return;
  for (const DeviceId device : memory_.topology().devices()) {
    try {
      const ContextHandle program = stops_.unchecked(device);
      if (is_none(program)) continue;
      begin(Kind::check, device,
            [this, device, program] { stops_.check_suspension(device, program); });
    } catch (const std::exception& error) {
      note(Kind::check, device, error);
    }
  }
}

void Preparation::begin_ahead() noexcept {
  constexpr std::chrono::milliseconds pause(10);
  const TimePoint now = memory_.driver().clock().now();
  if (now < next_ahead_.load(std::memory_order_relaxed)) return;
  next_ahead_.store(now + pause, std::memory_order_relaxed);
  begin_suspensions();
}

void Preparation::look_ahead() noexcept {
  if (!stops_.suspends() || memory_.driver().simulated()) return;
  begin(Kind::look, DeviceId{},
        [this] { memory_.driver().prepare_suspensions([this] { return stopping_.load(); }); });
}

void Preparation::begin_wanted() noexcept {
  try {
    for (const DeviceId device : copiers_.take_wanted()) {
      begin(Kind::digest, device, [this, device] {
        try {
          copiers_.get(device, true);
        } catch (const std::exception&) {
          copiers_.put_off(device);
          throw;
        }
      });
    }
  } catch (const std::exception& error) {
    log(LogLevel::debug, "copies go on without digests at their targets: {}", error.what());
  }
}

/// Unless the last one of this kind for the GPU still runs; the first two kinds only once.
void Preparation::begin(Kind kind, DeviceId device, std::function<void()> run) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    const auto [place, fresh] = jobs_.try_emplace({kind, device});
    Job& job = place->second;
    const bool once = kind == Kind::look || kind == Kind::gate;
    if ((once && !fresh) || (job.ended && !*job.ended)) return;
    if (job.task) job.task->join();  // Its thread has nothing left to do.
    job = {};
    const auto ended = std::make_shared<std::atomic<bool>>(false);
    const std::string number = kind == Kind::look ? "" : fmt::format(" {}", index(device));
    job = {memory_.driver().executor().spawn(fmt::format("vmart {}{}", name_of(kind), number),
                                             [this, kind, device, ended, run = std::move(run)] {
                                               try {
                                                 if (!stopping_) run();
                                               } catch (const std::exception& error) {
                                                 note(kind, device, error);
                                               }
                                               *ended = true;
                                             }),
           ended};
  } catch (const std::exception& error) {
    note(kind, device, error);
  }
}

const char* Preparation::name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::look: return "look";
    case Kind::gate: return "prep";
    case Kind::check: return "check";
    case Kind::digest: return "digest";
  }
  return "job";
}

void Preparation::note(Kind kind, DeviceId device, const std::exception& error) noexcept {
  if (kind == Kind::look) {
    log(LogLevel::debug, "the first suspension is not prepared: {}", error.what());
  } else {
    log(LogLevel::debug, "moves of gpu({}) are not fully prepared ({}): {}", index(device),
        name_of(kind), error.what());
  }
}

void Preparation::await() noexcept {
  for (;;) {
    std::unique_ptr<Task> task;
    {
      const MutexLock lock(mutex_);
      const auto begun =
          std::ranges::find_if(jobs_, [](const auto& job) { return job.second.task != nullptr; });
      if (begun == jobs_.end()) return;
      task = std::move(begun->second.task);
    }
    task->join();
  }
}

void Preparation::stop() noexcept {
  std::map<std::pair<Kind, DeviceId>, Job> jobs;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& [which, job] : jobs) {
    if (job.task) job.task->join();
  }
}

void Preparation::prepare(DeviceId device) {
  const ContextHandle context = copiers_.application_context(device);
  if (is_none(context) || stopping_) return;
  copiers_.get(device, false);
  if (!stopping_) load_stopper(context);
}

/// The driver keeps the kernel that it loads for the first chain of this kind.
void Preparation::load_stopper(ContextHandle context) {
  Driver& driver = memory_.driver();
  Ledger& ledger = memory_.chunks().ledger();
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  PinnedWords words(driver, context, ledger);
  ChainStep step;
  step.words = {{WordOperation::Kind::write, address_of(words.take()), 1},
                {WordOperation::Kind::wait_until_at_least, address_of(words.take()), 1}};
  const ExecGraphHandle chain = driver.make_chain(context, {&step, 1});
  ledger.undo("a chain of gates", [&] { driver.destroy_exec_graph(chain); });
}

}  // namespace vma
