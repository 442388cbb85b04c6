#include "migrate/copying/copy_engine.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "migrate/copying/digest.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t bounce_bytes = 8 * MiB;

bool is_gpu(Place at) {
  return at.kind == Place::Kind::gpu;
}

}  // namespace

CopyEngine::CopyEngine(Driver& driver, const Topology& topology, ContextsInUse& contexts,
                       Ledger& ledger, Mutex& slow_turn, bool own_contexts)
    : driver_(driver),
      topology_(topology),
      contexts_(contexts),
      ledger_(ledger),
      slow_turn_(slow_turn),
      choice_(driver, topology, contexts, ledger, own_contexts) {}

CopyEngine::~CopyEngine() {
  const MutexLock turn(slow_turn_);
  const MutexLock lock(mutex_);
  routes_.clear();
  left_.clear();
}

CopyEngine::Route::~Route() {
  bounce.reset();
  for (const BoundStream each : {stream, spare}) {
    if (is_none(each.handle)) continue;
    ledger.undo("a stream of the copy engine", [&] { driver.destroy_stream(each); });
  }
  if (is_none(kernel)) return;
  ledger.undo("a kernel of the copy engine", [&] { driver.unload_kernel(kernel); });
}

CopyEngine::Bounce::~Bounce() {
  for (int side = 0; side < 2; ++side) {
    if (void* buffer = buffers[side]) {
      ledger.undo("a buffer of the copy engine",
                  [&] { driver.free_pinned(second.context, buffer); });
    }
    for (const EventHandle event : {filled[side], emptied[side]}) {
      if (!is_none(event))
        ledger.undo("an event of the copy engine", [&] { driver.destroy_event(event); });
    }
  }
  if (!is_none(second.handle)) {
    ledger.undo("a stream of the copy engine", [&] { driver.destroy_stream(second); });
  }
}

/// For bytes that no single GPU can carry.
DeviceId CopyEngine::default_device(Place from, Place to) const {
  if (from.kind == Place::Kind::gpu) return DeviceId{from.ordinal};
  if (to.kind == Place::Kind::gpu) return DeviceId{to.ordinal};
  return topology_.devices().front();
}

bool CopyEngine::can_copy_ahead(Place from, Place to) {
  const auto chosen = choice_.choose(from, to, CopyUnder::nothing);
  // The stream on which the hold waits has one of the queues.
  return trusts_ahead_ && chosen && chosen->kind == CopyContext::application &&
         topology_.info(chosen->device).max_queues >= 2;
}

bool CopyEngine::hold_creates_context(Place from, Place to) {
  if (find({from, to, CopyUnder::hold}) != nullptr) return false;
  const auto chosen = choice_.choose(from, to, CopyUnder::hold);
  return !chosen || !choice_.has_own(chosen->device);
}

CopyEngine::Route* CopyEngine::find(const Key& key) {
  const MutexLock lock(mutex_);
  const auto known = routes_.find(key);
  return known == routes_.end() ? nullptr : known->second.get();
}

CopyEngine::Route& CopyEngine::route(const Key& key) {
  if (Route* known = find(key)) return *known;
  // Here, since it takes long, and others wait for the turn.
  const auto chosen = choice_.choose(key.from, key.to, key.under);
  if (chosen && chosen->kind == CopyContext::own) choice_.open_own(chosen->device);
  const MutexLock turn(slow_turn_);
  if (Route* known = find(key)) return *known;
  std::unique_ptr<Route> made = make_route(key);
  const MutexLock lock(mutex_);
  return *(routes_[key] = std::move(made));
}

/// Creates none: the caller may have the turn for slow calls.
CopyEngine::Route& CopyEngine::prepared(const Key& key) {
  if (Route* known = find(key)) return *known;
  throw Error(ErrorKind::driver_failure, "vma::migrate",
              fmt::format("the context in which bytes were to be copied from {} to {} has failed; "
                          "a further call copies in another one",
                          to_string(key.from), to_string(key.to)));
}

std::unique_ptr<CopyEngine::Route> CopyEngine::make_route(const Key& key) {
  const auto whole = choice_.choose(key.from, key.to, key.under);
  const CopyContexts::Chosen chosen =
      whole ? *whole : choice_.choose_on(default_device(key.from, key.to), key.under);
  const bool application = chosen.kind == CopyContext::application;
  try {
    auto route = std::make_unique<Route>(driver_, ledger_);
    route->application = application;
    route->device = chosen.device;
    const ContextHandle context = choice_.open(chosen);
    route->stream = driver_.create_stream(context, StreamKind::non_blocking);
    route->spare = driver_.create_stream(context, StreamKind::non_blocking);
    if (!whole) route->bounce = make_bounce(context, DeviceId{key.to.ordinal}, key.under);
    const bool between_gpus = is_gpu(key.from) && is_gpu(key.to) && key.from != key.to;
    // In a context of the program it would wait for the program's work; beside a gate, kernels
    // would take multiprocessors from the program.
    const bool idle = chosen.kind == CopyContext::own && key.under == CopyUnder::hold;
    if (whole && between_gpus && idle) load_kernel(*route, chosen.device);
    return route;
  } catch (const Error& error) {
    if (!application || !context_is_broken(error.native())) throw;
    choice_.avoid(chosen.device);
    return make_route(key);  // In a context of the runtime's own.
  }
}

/// Copies go on without it: by a copy engine they only take longer.
void CopyEngine::load_kernel(Route& route, DeviceId device) {
  const Kernel* const kernel = &copy_kernel();
  try {
    route.kernel =
        driver_.load_kernels(route.stream.context, {&kernel, 1}, digest_kernels_image()).front();
    route.shape = copy_shape(topology_.info(device).multiprocessors);
  } catch (const Error& error) {
    if (context_is_broken(error.native())) throw;
    log(LogLevel::debug, "copies from gpu({}) use copy engines alone: {}", index(device),
        error.what());
  }
}

/// The context of the route has failed for good. False if there is no other one to copy in.
bool CopyEngine::leave(const Key& key, const Route& broken) {
  if (!broken.application) return false;
  choice_.avoid(broken.device);
  const MutexLock lock(mutex_);
  const auto known = routes_.find(key);
  if (known == routes_.end() || known->second.get() != &broken) return true;  // Left already.
  left_.push_back(std::move(known->second));
  routes_.erase(known);
  return true;
}

std::unique_ptr<CopyEngine::Bounce> CopyEngine::make_bounce(ContextHandle first, DeviceId second,
                                                            CopyUnder under) {
  auto bounce = std::make_unique<Bounce>(driver_, ledger_);
  bounce->second = driver_.create_stream(choice_.open(choice_.choose_on(second, under)),
                                         StreamKind::non_blocking);
  for (int side = 0; side < 2; ++side) {
    bounce->buffers[side] = driver_.allocate_pinned(first, bounce_bytes);
    bounce->filled[side] = driver_.create_event(first);
    bounce->emptied[side] = driver_.create_event(bounce->second.context);
  }
  return bounce;
}

void CopyEngine::prepare(Place from, Place to, std::size_t copies, CopyUnder under) {
  const Key key{from, to, under};
  const Route* ready = &route(key);
  if (ready->application) {
    try {
      driver_.query_stream(ready->stream);
    } catch (const Error& error) {  // If it is another failure, the copy meets it.
      if (context_is_broken(error.native())) {
        leave(key, *ready);
        ready = &route(key);
      }
    }
  }
  const ContextHandle context = (ready->bounce ? ready->bounce->second : ready->stream).context;
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

BoundStream CopyEngine::spare_stream(Place from, Place to, CopyUnder under) {
  return route({from, to, under}).spare;
}

BoundStream CopyEngine::stream_of_hold(Place at) {
  // Only the stream on which the hold waits needs a context.
  const bool creates = hold_creates_context(at, at);
  const CopyUnder under = creates && can_copy_ahead(at, at) ? CopyUnder::nothing : CopyUnder::hold;
  prepare(at, at, 2, under);
  return spare_stream(at, at, under);
}

void CopyEngine::order_after(Place from, Place to, CopyUnder under,
                             std::span<const EventHandle> events) {
  const BoundStream stream = prepared({from, to, under}).stream;
  for (const EventHandle event : events) driver_.stream_wait_event(stream, event);
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

bool CopyEngine::has_kernel(Place from, Place to, CopyUnder under) {
  const Route* const known = find({from, to, under});
  return known != nullptr && !is_none(known->kernel);
}

CopyEngine::Copy CopyEngine::enqueue(const Chunk& source, const Chunk& target, CopyUnder under,
                                     TimePoint deadline, CopyBy by) {
  Route& route = prepared({source.at(), target.at(), under});
  const MutexLock lock(route.enqueuing);
  try {
    if (route.bounce) {
      enqueue_bounced(route, target.staging(), source.staging(), source.size_bytes());
      return mark(route.bounce->second);
    }
    if (by == CopyBy::kernel) {
      driver_.launch(route.stream, route.kernel, route.shape,
                     copy_arguments(target.staging(), source.staging(), source.size_bytes()));
    } else {
      driver_.copy(route.stream, target.staging(), source.staging(), source.size_bytes());
    }
    return mark(route.stream);
  } catch (...) {
    // Part of it may already be enqueued: wait for that to end, so that none of it runs.
    const bool first = settle(route.stream, deadline);
    const bool second = !route.bounce || settle(route.bounce->second, deadline);
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

void CopyEngine::finish(BoundStream stream, const char* what, const std::function<void()>& lost) {
  try {
    driver_.wait_stream(stream, never);
  } catch (const Error& error) {
    // The caller may reuse its memory once this returns, so nothing may still touch it.
    if (settle(stream)) throw;
    if (lost) lost();
    throw Error(
        ErrorKind::driver_failure, error.call(),
        fmt::format("{} may still be running and cannot be waited for: {}", what, error.what()),
        error.native());
  }
}

bool CopyEngine::settle(BoundStream stream, TimePoint deadline) noexcept {
  constexpr int tries = 8;  // Memory is reused after this, so one refusal is not final.
  for (int attempt = 1;; ++attempt) {
    try {
      if (driver_.wait_stream(stream, deadline)) return true;
      ledger_.leaked("work of the copy engine that has not ended in time");
      return false;
    } catch (const Error& error) {
      if (context_is_broken(error.native())) return true;  // No work runs there any more.
      if (attempt < tries) continue;
      ledger_.leaked("work of the copy engine that may still run: {}", error.what());
      return false;
    }
  }
}

/// Runs `body` with a route for bytes that stay at their place; once more in another context if
/// the program's has failed for good.
template <typename Body>
void CopyEngine::on_route(Place at, Body&& body) {
  const Key key{at, at, CopyUnder::nothing};
  const Route& first = route(key);
  try {
    return body(first);
  } catch (const Error& error) {
    if (!context_is_broken(error.native()) || !leave(key, first)) throw;
  }
  body(route(key));
}

void CopyEngine::read(const Chunk& chunk, Address from, std::span<std::byte> out) {
  on_route(chunk.at(), [&](const Route& route) {
    driver_.copy(route.stream, address_of(out.data()), from, out.size());
    finish(route.stream, "a copy into the caller's memory", [&] { chunk.mark_busy(); });
  });
}

void CopyEngine::write(const Chunk& chunk, Address to, std::span<const std::byte> bytes) {
  on_route(chunk.at(), [&](const Route& route) {
    driver_.copy(route.stream, to, address_of(bytes.data()), bytes.size());
    finish(route.stream, "a copy out of the caller's memory", [&] { chunk.mark_busy(); });
  });
}

void CopyEngine::zero(Place at, Address begin, std::uint64_t size_bytes, const ZeroSteps& steps) {
  std::exception_ptr failure;
  on_route(at, [&](const Route& route) {
    if (steps.before) steps.before(route.device);
    driver_.fill(route.stream, begin, std::byte{0}, size_bytes);
    try {
      if (steps.beside) steps.beside();
    } catch (...) {
      failure = std::current_exception();  // The fill is waited for all the same.
    }
    finish(route.stream, "a fill with zeros", steps.lost);
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace vma
