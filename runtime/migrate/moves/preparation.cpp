#include "migrate/moves/preparation.hpp"

#include "base/log.hpp"
#include "migrate/gates/pinned_words.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace vma {

Preparation::Preparation(Memory& memory, LiveCopiers& copiers)
    : memory_(memory), copiers_(copiers) {}

Preparation::~Preparation() {
  stop();
}

void Preparation::begin(DeviceId device) noexcept {
  const MutexLock lock(mutex_);
  if (stopping_ || tasks_.contains(device)) return;
  try {
    std::unique_ptr<Task>& task = tasks_[device];
    task = memory_.driver().executor().spawn(fmt::format("vmart prep {}", index(device)),
                                             [this, device] { prepare(device); });
  } catch (const std::exception& error) {
    tasks_.erase(device);
    log(LogLevel::debug, "moves off gpu({}) are not prepared: {}", index(device), error.what());
  }
}

void Preparation::stop() noexcept {
  std::map<DeviceId, std::unique_ptr<Task>> tasks;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    tasks.swap(tasks_);
  }
  for (const auto& [device, task] : tasks) task->join();
}

void Preparation::prepare(DeviceId device) noexcept {
  try {
    const ContextHandle context = copiers_.application_context(device);
    if (is_none(context) || stopping_) return;
    copiers_.get(device, false);
    if (!stopping_) load_stopper(context);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "moves off gpu({}) are not fully prepared: {}", index(device),
        error.what());
  }
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
