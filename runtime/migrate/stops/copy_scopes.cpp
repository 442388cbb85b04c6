#include "migrate/stops/copy_scopes.hpp"

#include "base/process_exit.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

namespace vma {

thread_local volatile int CopyScopes::depth_ = 0;

CopyScopes& CopyScopes::process() noexcept {
  static Immortal<CopyScopes> scopes;  // Threads copy while the process exits.
  return *scopes;
}

void CopyScopes::enter() noexcept {
  const int depth = depth_;
  depth_ = depth + 1;
  if (depth > 0) return;
  while (true) {
    const std::uint32_t let_go = let_go_;
    // Either this thread sees that scopes are held back, or the stop sees this scope.
    ++open_;
    if (held_back_ == 0 || may_go_on()) return;
    --open_;
    let_go_.wait(let_go);
  }
}

void CopyScopes::leave() noexcept {
  const int depth = depth_;
  if (depth == 0) return;  // It was never entered.
  depth_ = depth - 1;
  if (depth == 1) --open_;
}

/// A stop lasts for ever in a child that was forked meanwhile.
bool CopyScopes::may_go_on() const noexcept {
  return exiting_ || holder_ != getpid();
}

/// Only once all stops have ended, whatever their kind: a slot of one is dark while others end.
void CopyScopes::prepare_for_exit() {
  static std::atomic<int> prepared{0};
  ProcessExit::act_once(prepared, ProcessExit::Stage::let_copies_go,
                        [] { process().let_go_at_exit(); });
}

void CopyScopes::let_go_at_exit() noexcept {
  if (stay_) return;
  exiting_ = true;
  ++let_go_;
  let_go_.notify_all();
}

void CopyScopes::note_unguarded(std::string_view why) noexcept {
  Guarded all = Guarded::all;
  if (!guarded_.compare_exchange_strong(all, Guarded::telling)) return;
  why.copy(why_, sizeof why_ - 1);
  guarded_ = Guarded::some;
}

void CopyScopes::require_guards(const char* call) const {
  if (guarded_ != Guarded::some) return;
  throw Error(
      ErrorKind::unsupported, call,
      fmt::format("a copy that another thread enqueues during the move could fail or crash: "
                  "{}. Open vmart before the program uses CUDA, start it with `vmart run`, "
                  "or enclose its copies in vma::CopyScope and set VMART_COPY_GUARDS=0",
                  why_));
}

bool NoCopyScopes::begin(Clock& clock, TimePoint deadline) {
  if (begun_) return true;
  CopyScopes::prepare_for_exit();
  CopyScopes& scopes = CopyScopes::process();
  scopes.holder_ = getpid();
  ++scopes.held_back_;
  begun_ = true;  // From here on another thread may end it.
  const bool none = poll_until(clock, deadline, [&] { return scopes.open_ <= 0; });
  scopes.in_the_way_ = !none;
  if (!none) end();
  return none;
}

void NoCopyScopes::end() noexcept {
  if (!begun_.exchange(false)) return;
  CopyScopes& scopes = CopyScopes::process();
  --scopes.held_back_;
  ++scopes.let_go_;
  scopes.let_go_.notify_all();
}

CopyScope::CopyScope() noexcept {
  CopyScopes::process().enter();
}

CopyScope::~CopyScope() {
  CopyScopes::process().leave();
}

}  // namespace vma
