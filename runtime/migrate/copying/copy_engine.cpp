#include "migrate/copying/copy_engine.hpp"

#include "base/units.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t bounce_bytes = 8 * MiB;

}  // namespace

CopyEngine::CopyEngine(Driver& driver, const Topology& topology, ContextsInUse& contexts,
                       Ledger& ledger, Mutex& slow_turn)
    : driver_(driver),
      topology_(topology),
      contexts_(contexts),
      ledger_(ledger),
      slow_turn_(slow_turn) {}

CopyEngine::~CopyEngine() {
  const MutexLock turn(slow_turn_);
  const MutexLock lock(mutex_);
  for (auto& [ends, route] : routes_) release(*route);
  for (const auto& [device, context] : own_contexts_) {
    if (is_none(context)) continue;
    contexts_.forget(context);
    ledger_.undo("a context of the copy engine",
                 [&, own = context] { driver_.destroy_context(own); });
  }
}

void CopyEngine::release(Route& route) noexcept {
  if (route.bounce) release(*route.bounce);
  for (const BoundStream stream : {route.stream, route.spare}) {
    if (is_none(stream.handle)) continue;
    ledger_.undo("a stream of the copy engine", [&] { driver_.destroy_stream(stream); });
  }
}

DeviceId CopyEngine::device_for(Location from, Location to) const {
  if (from.kind == Location::Kind::gpu) return DeviceId{from.ordinal};
  if (to.kind == Location::Kind::gpu) return DeviceId{to.ordinal};
  return topology_.devices().front();
}

bool CopyEngine::direct(Location from, Location to) const {
  const DeviceId device = device_for(from, to);
  return topology_.reaches(device, from) && topology_.reaches(device, to);
}

ContextHandle CopyEngine::own_context(DeviceId device) {
  ContextHandle& own = own_contexts_[device];
  if (!is_none(own)) return own;
  const ContextHandle context = driver_.create_context(device);
  try {
    contexts_.exclude(context);
  } catch (...) {
    ledger_.undo("a context of the copy engine", [&] { driver_.destroy_context(context); });
    throw;
  }
  return own = context;
}

CopyEngine::Route* CopyEngine::find(Location from, Location to) {
  const MutexLock lock(mutex_);
  const auto known = routes_.find({from, to});
  return known == routes_.end() ? nullptr : known->second.get();
}

CopyEngine::Route& CopyEngine::route(Location from, Location to) {
  if (Route* known = find(from, to)) return *known;
  const MutexLock turn(slow_turn_);
  if (Route* known = find(from, to)) return *known;
  std::unique_ptr<Route> made = make_route(from, to);
  const MutexLock lock(mutex_);
  return *(routes_[{from, to}] = std::move(made));
}

std::unique_ptr<CopyEngine::Route> CopyEngine::make_route(Location from, Location to) {
  auto route = std::make_unique<Route>();
  try {
    const ContextHandle context = own_context(device_for(from, to));
    route->stream = driver_.create_stream(context, StreamKind::non_blocking);
    route->spare = driver_.create_stream(context, StreamKind::non_blocking);
    if (!direct(from, to)) route->bounce = make_bounce(context, DeviceId{to.ordinal});
  } catch (...) {
    release(*route);
    throw;
  }
  return route;
}

std::unique_ptr<CopyEngine::Bounce> CopyEngine::make_bounce(ContextHandle first, DeviceId second) {
  auto bounce = std::make_unique<Bounce>();
  try {
    bounce->second = driver_.create_stream(own_context(second), StreamKind::non_blocking);
    for (int side = 0; side < 2; ++side) {
      bounce->buffers[side] = driver_.allocate_pinned(first, bounce_bytes);
      bounce->filled[side] = driver_.create_event(first);
      bounce->emptied[side] = driver_.create_event(bounce->second.context);
    }
  } catch (...) {
    release(*bounce);
    throw;
  }
  return bounce;
}

void CopyEngine::release(Bounce& bounce) noexcept {
  for (int side = 0; side < 2; ++side) {
    if (void* buffer = bounce.buffers[side]) {
      ledger_.undo("a buffer of the copy engine",
                   [&] { driver_.free_pinned(bounce.second.context, buffer); });
    }
    for (const EventHandle event : {bounce.filled[side], bounce.emptied[side]}) {
      if (!is_none(event))
        ledger_.undo("an event of the copy engine", [&] { driver_.destroy_event(event); });
    }
  }
  if (!is_none(bounce.second.handle)) {
    ledger_.undo("a stream of the copy engine", [&] { driver_.destroy_stream(bounce.second); });
  }
}

void CopyEngine::prepare(Location from, Location to, std::size_t copies) {
  const Route& ready = route(from, to);
  const ContextHandle context = (ready.bounce ? ready.bounce->second : ready.stream).context;
  // The events that mark the ends of copies: none can be created while work is stopped.
  std::vector<EventHandle> events;
  events.reserve(copies);
  const MutexLock turn(slow_turn_);
  std::exception_ptr failure;
  try {
    while (events.size() < copies) events.push_back(contexts_.take_event(context));
  } catch (...) {
    failure = std::current_exception();
  }
  for (const EventHandle event : events) contexts_.give_back(context, event);
  if (failure) std::rethrow_exception(failure);
}

BoundStream CopyEngine::spare_stream(Location from, Location to) {
  return route(from, to).spare;
}

CopyEngine::Copy CopyEngine::mark(BoundStream stream) {
  const EventHandle event = contexts_.take_event(stream.context);
  try {
    driver_.record(event, stream);
  } catch (...) {
    contexts_.give_back(stream.context, event);
    throw;
  }
  return {stream.context, event};
}

CopyEngine::Copy CopyEngine::enqueue(const Chunk& source, const Chunk& target) {
  Route& route = this->route(source.at(), target.at());
  const MutexLock lock(route.enqueuing);
  try {
    if (route.bounce) {
      enqueue_bounced(route, target.staging(), source.staging(), source.size_bytes());
      return mark(route.bounce->second);
    }
    driver_.copy(route.stream, target.staging(), source.staging(), source.size_bytes());
    return mark(route.stream);
  } catch (...) {
    // Part of it may already be enqueued: wait for that to end, so that none of it runs.
    const bool first = settle(route.stream);
    const bool second = !route.bounce || settle(route.bounce->second);
    if (!first || !second) {
      source.mark_busy();
      target.mark_busy();
    }
    throw;
  }
}

void CopyEngine::enqueue_bounced(Route& route, Address target, Address source,
                                 std::uint64_t size_bytes) {
  Bounce& bounce = *route.bounce;
  int side = 0;
  for (std::uint64_t offset = 0; offset < size_bytes; offset += bounce_bytes, side ^= 1) {
    const std::uint64_t piece = std::min(bounce_bytes, size_bytes - offset);
    const Address buffer = address_of(bounce.buffers[side]);
    if (bounce.used) driver_.stream_wait_event(route.stream, bounce.emptied[side]);
    driver_.copy(route.stream, buffer, source + offset, piece);
    driver_.record(bounce.filled[side], route.stream);
    driver_.stream_wait_event(bounce.second, bounce.filled[side]);
    driver_.copy(bounce.second, target + offset, buffer, piece);
    driver_.record(bounce.emptied[side], bounce.second);
    if (side == 1) bounce.used = true;
  }
  bounce.used = true;
}

bool CopyEngine::done(const Copy& copy) {
  return driver_.query_event(copy.done);
}

void CopyEngine::wait(const Copy& copy) {
  try {
    driver_.wait_event(copy.done, never);
  } catch (...) {
    contexts_.give_back(copy.context, copy.done);
    throw;
  }
  contexts_.give_back(copy.context, copy.done);
}

bool CopyEngine::wait_until(const Copy& copy, TimePoint deadline) {
  return driver_.wait_event(copy.done, deadline);
}

void CopyEngine::finish(BoundStream stream, const Chunk& chunk, const char* what) {
  try {
    driver_.wait_stream(stream, never);
  } catch (const Error& error) {
    // The caller may reuse its memory once this returns, so nothing may still touch it.
    if (settle(stream)) throw;
    chunk.mark_busy();
    throw Error(
        ErrorKind::driver_failure, error.call(),
        fmt::format("{} may still be running and cannot be waited for: {}", what, error.what()),
        error.native());
  }
}

bool CopyEngine::settle(BoundStream stream) noexcept {
  constexpr int tries = 8;  // Memory is reused after this, so one refusal is not final.
  for (int attempt = 1;; ++attempt) {
    try {
      driver_.wait_stream(stream, never);
      return true;
    } catch (const Error& error) {
      if (context_is_broken(error.native())) return true;  // No work runs there any more.
      if (attempt < tries) continue;
      ledger_.leaked("work of the copy engine that may still run: {}", error.what());
      return false;
    }
  }
}

void CopyEngine::read(const Chunk& chunk, std::uint64_t offset, std::span<std::byte> out) {
  const BoundStream stream = route(chunk.at(), chunk.at()).stream;
  driver_.copy(stream, address_of(out.data()), chunk.staging() + offset, out.size());
  finish(stream, chunk, "a copy into the caller's memory");
}

void CopyEngine::write(const Chunk& chunk, std::uint64_t offset, std::span<const std::byte> bytes) {
  const BoundStream stream = route(chunk.at(), chunk.at()).stream;
  driver_.copy(stream, chunk.staging() + offset, address_of(bytes.data()), bytes.size());
  finish(stream, chunk, "a copy out of the caller's memory");
}

void CopyEngine::zero(const Chunk& chunk) {
  const BoundStream stream = route(chunk.at(), chunk.at()).stream;
  driver_.fill(stream, chunk.staging(), std::byte{0}, chunk.size_bytes());
  finish(stream, chunk, "a fill with zeros");
}

}  // namespace vma
