#include "twin/user_stream.hpp"

#include <fmt/format.h>

namespace vma {
namespace {

constexpr StreamHandle per_thread{2};  // CU_STREAM_PER_THREAD.

}  // namespace

UserStream::UserStream(TwinWorld& world, int gpu, Kind kind)
    : world_(world), gpu_(gpu), kind_(kind), bound_{world.context(gpu), {}} {
  SimDriver& machine = world.machine();
  machine.set_current_context(bound_.context);
  if (kind == Kind::per_thread) bound_.handle = per_thread;
  if (kind == Kind::non_blocking || kind == Kind::blocking) {
    bound_ = machine.create_stream(
        bound_.context, kind == Kind::blocking ? StreamKind::blocking : StreamKind::non_blocking);
  }
  event_ = machine.create_event(bound_.context);
  world.share_event(event_);
  if (!world.plan().attaches()) return;
  insist([&] {
    try {
      world.runtime().attach(TwinWorld::named(bound_));
    } catch (const Error& error) {
      // A context has a single legacy stream, which another user may have attached already.
      if (kind != Kind::legacy || error.kind() != ErrorKind::invalid_argument) throw;
    }
  });
}

UserStream::~UserStream() {
  try {
    wait();
    // Others may use the legacy stream, so it stays attached.
    if (kind_ != Kind::legacy && world_.plan().attaches())
      insist([&] { world_.runtime().detach(TwinWorld::named(bound_)); });
    const bool made = kind_ == Kind::non_blocking || kind_ == Kind::blocking;
    if (made) world_.machine().destroy_stream(bound_);
  } catch (const std::exception& error) {
    world_.fail(fmt::format("a stream's end: {}", error.what()));
  }
}

/// Repeats calls of the runtime, which may fail if the plan fails some.
void UserStream::insist(const std::function<void()>& call) {
  constexpr int failures_max = 3;
  for (int failures = 0;; ++failures) {
    try {
      return call();
    } catch (const Error& error) {
      if (!world_.plan().any_error || failures == failures_max) throw;
    }
  }
}

void UserStream::record() {
  world_.submit([&] { world_.machine().record(event_, bound_); });
}

void UserStream::wait_for_another(std::mt19937_64& random) {
  const EventHandle other = world_.any_event(random);
  world_.submit([&] { world_.machine().stream_wait_event(bound_, other); });
}

}  // namespace vma
