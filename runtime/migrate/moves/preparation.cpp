#include "migrate/moves/preparation.hpp"

#include "base/log.hpp"
#include "migrate/gates/stop_words.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>
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
      begin(stream.device);
    }
  } catch (const std::bad_alloc&) {  // The first move will take longer.
  }
}

void Preparation::begin(DeviceId device) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (gates_.contains(device)) return;
    begin(gates_, device, "vmart prep", [this, device] { prepare(device); });
  } catch (const std::exception& error) {
    log(LogLevel::debug, "moves off gpu({}) are not prepared: {}", index(device), error.what());
  }
}

void Preparation::begin_suspensions() noexcept {
  if (!stops_.suspends()) return;
  for (const DeviceId device : memory_.topology().devices()) {
    try {
      const ContextHandle program = stops_.unchecked(device);
      if (is_none(program)) continue;
      const MutexLock lock(mutex_);
      begin(suspensions_, device, "vmart check",
            [this, device, program] { stops_.check_suspension(device, program); });
    } catch (const std::exception& error) {
      log(LogLevel::debug, "whether work of gpu({}) can be suspended is not tried yet: {}",
          index(device), error.what());
    }
  }
}

void Preparation::look_ahead() noexcept {
  if (!stops_.suspends() || memory_.driver().simulated()) return;
  try {
    const MutexLock lock(mutex_);
    if (stopping_ || looking_) return;
    looking_ = memory_.driver().executor().spawn("vmart look", [this] {
      try {
        memory_.driver().prepare_suspensions([this] { return stopping_.load(); });
      } catch (const std::exception& error) {
        log(LogLevel::debug, "the first suspension is not prepared: {}", error.what());
      }
    });
  } catch (const std::exception& error) {
    log(LogLevel::debug, "the first suspension is not prepared: {}", error.what());
  }
}

void Preparation::begin_wanted() noexcept {
  try {
    for (const DeviceId device : copiers_.take_wanted()) {
      const MutexLock lock(mutex_);
      begin(digests_, device, "vmart digest", [this, device] {
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

/// Unless the last one for this GPU still runs.
void Preparation::begin(Jobs& jobs, DeviceId device, const std::string& name,
                        std::function<void()> run) {
  if (stopping_) return;
  Job& job = jobs[device];
  if (job.task && !*job.ended) return;
  if (job.task) job.task->join();  // Its thread has nothing left to do.
  job = {};
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  job = {memory_.driver().executor().spawn(fmt::format("{} {}", name, index(device)),
                                           [this, device, ended, run = std::move(run)] {
                                             try {
                                               if (!stopping_) run();
                                             } catch (const std::exception& error) {
                                               log(LogLevel::debug,
                                                   "moves off gpu({}) are not fully prepared: {}",
                                                   index(device), error.what());
                                             }
                                             *ended = true;
                                           }),
         ended};
}

void Preparation::stop() noexcept {
  Jobs gates, suspensions, digests;
  std::unique_ptr<Task> looking;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    gates.swap(gates_);
    suspensions.swap(suspensions_);
    digests.swap(digests_);
    looking.swap(looking_);
  }
  if (looking) looking->join();
  for (const Jobs* const jobs : {&gates, &suspensions, &digests}) {
    for (const auto& [device, job] : *jobs) {
      if (job.task) job.task->join();
    }
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
