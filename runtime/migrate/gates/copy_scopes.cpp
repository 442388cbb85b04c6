#include "migrate/gates/copy_scopes.hpp"

#include "base/process_exit.hpp"

#include <vma/migration.hpp>

#include <sys/types.h>
#include <unistd.h>

namespace vma {

CopyScopes& CopyScopes::process() noexcept {
  static CopyScopes& scopes = *new CopyScopes;  // Threads copy while the process exits.
  return scopes;
}

void CopyScopes::enter() noexcept {
  while (true) {
    // Either this thread sees that scopes are held back, or the stop sees this scope.
    ++open_;
    const std::uint32_t held_back = held_back_;
    if (held_back == 0 || may_go_on()) return;
    leave();
    held_back_.wait(held_back);
  }
}

void CopyScopes::leave() noexcept {
  --open_;
}

/// A stop may last for ever once the process exits, and does in a child that was forked meanwhile.
bool CopyScopes::may_go_on() const noexcept {
  return ProcessExit::begun() || holder_ != getpid();
}

bool NoCopies::begin(Clock& clock, TimePoint deadline) {
  if (begun_) return true;
  CopyScopes& scopes = CopyScopes::process();
  scopes.holder_ = getpid();
  begun_ = true;
  ++scopes.held_back_;
  const bool none = poll_until(clock, deadline, [&] { return scopes.open_ <= 0; });
  scopes.in_the_way_ = !none;
  if (!none) end();
  return none;
}

void NoCopies::end() noexcept {
  if (!begun_.exchange(false)) return;
  CopyScopes& scopes = CopyScopes::process();
  --scopes.held_back_;
  scopes.held_back_.notify_all();
}

CopyScope::CopyScope() noexcept {
  CopyScopes::process().enter();
}

CopyScope::~CopyScope() {
  CopyScopes::process().leave();
}

}  // namespace vma
