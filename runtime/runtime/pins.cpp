#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/guest.hpp"
#include "runtime/runtime_parts.hpp"

#include "base/process_exit.hpp"

#include <utility>

namespace vma {
inline namespace v1 {

// --- Pin

struct Pin::State {
  explicit State(Guest guest) : guest(std::move(guest)) {}
  ~State() {
    if (!pinned) return;
    guest.allocation->unpin();  // One atomic step.
    guest.tell_changed("vma::Pin");
  }
  Guest guest;
  bool pinned = false;
};

Pin::Pin(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Pin::Pin(Pin&&) noexcept = default;
Pin& Pin::operator=(Pin&&) noexcept = default;
Pin::~Pin() = default;

Pin Runtime::pin(void* pointer) {
  constexpr const char* call = "vma::pin";
  const RuntimeParts::Entry entry(*parts_, call);
  auto state =
      std::make_unique<Pin::State>(Guest(*parts_, entry->memory.require_around(pointer, call)));
  Allocation& allocation = *state->guest.allocation;
  {
    const MutexLock lock(allocation.operations());
    allocation.pin();
    state->pinned = true;
    check_usable(allocation, call);
    check_not_poisoned(allocation, call);
    check_not_dropped(allocation, call);
  }
  entry->memory.tell_changed(allocation);
  return Pin(std::move(state));
}

// --- ReadOnly

struct ReadOnly::State {
  explicit State(Guest guest) : guest(std::move(guest)) {}
  ~State() {
    if (!declared) return;
    guest.leave("vma::ReadOnly", [this](const RuntimeParts::Entry& entry) {
      Allocation& allocation = *guest.allocation;
      const std::uint64_t epoch = allocation.writable_epoch();
      try {
        const MutexLock lock(allocation.operations());
        allocation.set_read_only(false, entry->topology);  // A free may yet fail.
      } catch (...) {
        entry->memory.chunks().drop_copies(allocation);
        throw;
      }
      if (allocation.writable_epoch() != epoch) entry->memory.chunks().drop_copies(allocation);
    });
    guest.tell_changed("vma::ReadOnly");
  }
  Guest guest;
  bool declared = false;
};

ReadOnly::ReadOnly(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ReadOnly::ReadOnly(ReadOnly&&) noexcept = default;
ReadOnly& ReadOnly::operator=(ReadOnly&&) noexcept = default;
ReadOnly::~ReadOnly() = default;

ReadOnly Runtime::read_only(void* pointer) {
  constexpr const char* call = "vma::read_only";
  const RuntimeParts::Entry entry(*parts_, call);
  auto state = std::make_unique<ReadOnly::State>(
      Guest(*parts_, entry->memory.require_around(pointer, call)));
  Allocation& allocation = *state->guest.allocation;
  {
    const MutexLock lock(allocation.operations());
    check_usable(allocation, call);
    check_not_poisoned(allocation, call);
    if (allocation.views > 0) throw Error(ErrorKind::pinned, call, allocation.why_pinned());
    allocation.set_read_only(true, entry->topology);
  }
  state->declared = true;
  entry->memory.tell_changed(allocation);
  return ReadOnly(std::move(state));
}

// --- Hooks

struct MoveHookRegistration::State {
  explicit State(Guest guest) : guest(std::move(guest)) {}
  ~State() {
    if (id == 0 || guest.in_forked_child()) return;
    if (ProcessExit::begun()) {  // A paused thread may hold the lock, or be in the hook.
      guest.allocation->hooks().disable(id);
      ProcessExit::hold_back();
      return;
    }
    guest.allocation->hooks().remove(id);
    {
      // A chunk that may move because a hook followed it is switched before this returns.
      const MutexLock lock(guest.allocation->operations());
    }
    guest.tell_changed("vma::MoveHookRegistration");
  }
  Guest guest;
  std::uint64_t id = 0;
};

MoveHookRegistration::MoveHookRegistration(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}
MoveHookRegistration::MoveHookRegistration(MoveHookRegistration&&) noexcept = default;
MoveHookRegistration& MoveHookRegistration::operator=(MoveHookRegistration&&) noexcept = default;
MoveHookRegistration::~MoveHookRegistration() = default;

MoveHookRegistration Runtime::on_move(void* pointer, MoveHooks hooks) {
  constexpr const char* call = "vma::on_move";
  const RuntimeParts::Entry entry(*parts_, call);
  if (!hooks.before && !hooks.after) {
    throw Error(ErrorKind::invalid_argument, call, "neither hook is set");
  }
  auto state = std::make_unique<MoveHookRegistration::State>(
      Guest(*parts_, entry->memory.require_around(pointer, call)));
  check_usable(*state->guest.allocation, call);
  state->id = state->guest.allocation->hooks().add(std::move(hooks));
  entry->memory.tell_changed(*state->guest.allocation);
  return MoveHookRegistration(std::move(state));
}

}  // namespace v1
}  // namespace vma
