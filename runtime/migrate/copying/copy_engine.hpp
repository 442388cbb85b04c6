#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/chunk.hpp"
#include "memory/contexts_in_use.hpp"

#include <array>
#include <map>
#include <memory>
#include <span>
#include <utility>

namespace vma {

/// Copies between chunks, and between chunks and the caller's memory, in the runtime's own
/// contexts, so that copies run while every other context is held. Copies go through the chunks'
/// staging mappings.
///
/// A context costs hundreds of MiB of HBM, so each is created when a route first needs it: on the
/// source GPU, or on the target GPU if the source is the host. Creating a context while another is
/// held blocks until the hold ends, so routes are created under the turn for slow calls, which a
/// hold has. Between GPUs that cannot reach each other the bytes go through pinned host memory in
/// pieces. Any thread.
class CopyEngine {
 public:
  /// A copy in progress. Pass it to `wait` once.
  struct Copy {
    ContextHandle context{};
    EventHandle done{};
  };

  /// `slow_turn` belongs to the slow-call queue.
  CopyEngine(Driver& driver, const Topology& topology, ContextsInUse& contexts, Ledger& ledger,
             Mutex& slow_turn);
  ~CopyEngine();

  /// Creates what `copies` copies at a time on the route need; call it before anything is stopped.
  /// Blocks: about a second if a context is new. Requires: the caller does not hold the slow turn.
  void prepare(Location from, Location to, std::size_t copies = 1);
  /// A stream of a prepared context that nothing else uses, for a hold to wait on.
  BoundStream spare_stream(Location from, Location to);

  /// Requires: `prepare` was called for the route. Copies on one route run in order. Throws: then
  /// none of it runs, or both chunks are `busy()`.
  Copy enqueue(const Chunk& source, const Chunk& target);
  bool done(const Copy& copy);
  /// Like `done`, after waiting for the copy until `deadline`.
  bool wait_until(const Copy& copy, TimePoint deadline);
  /// Blocks. Throws: what the copy failed with; then it may still be running.
  void wait(const Copy& copy);
  /// Called in place of `wait`: the copy may never end.
  void give_up(const Copy& copy) noexcept { contexts_.give_back(copy.context, copy.done); }

  /// Copies between the caller's memory and `offset` of a chunk. Blocks until done. Throws:
  /// Error{driver_failure}; if the driver cannot wait for the end, the message says so, the
  /// caller's memory may still be read or written, and the chunk is `busy()`.
  void read(const Chunk& chunk, std::uint64_t offset, std::span<std::byte> out);
  void write(const Chunk& chunk, std::uint64_t offset, std::span<const std::byte> bytes);
  void zero(const Chunk& chunk);

 private:
  struct Bounce {  // A pair of pinned buffers, used alternately.
    BoundStream second;
    std::array<void*, 2> buffers{};
    std::array<EventHandle, 2> filled{};
    std::array<EventHandle, 2> emptied{};
    bool used = false;
  };
  struct Route {
    Mutex enqueuing;  // Keeps the pieces of one bounced copy together.
    BoundStream stream;
    BoundStream spare;
    std::unique_ptr<Bounce> bounce;  // Null if one device reaches both ends.
  };

  DeviceId device_for(Location from, Location to) const;
  bool direct(Location from, Location to) const;
  ContextHandle own_context(DeviceId device) VMART_REQUIRES(slow_turn_);
  Route* find(Location from, Location to);
  Route& route(Location from, Location to);
  std::unique_ptr<Route> make_route(Location from, Location to) VMART_REQUIRES(slow_turn_);
  std::unique_ptr<Bounce> make_bounce(ContextHandle first, DeviceId second)
      VMART_REQUIRES(slow_turn_);
  void release(Route& route) noexcept;
  void enqueue_bounced(Route& route, Address target, Address source, std::uint64_t size_bytes);
  Copy mark(BoundStream stream);
  /// `what` names the work that runs on the stream, for errors.
  void finish(BoundStream stream, const Chunk& chunk, const char* what);
  /// Waits until no work of the stream runs, even if the first waits fail. If all waits fail,
  /// returns false and counts a leak.
  bool settle(BoundStream stream) noexcept;
  void release(Bounce& bounce) noexcept;

  Driver& driver_;
  const Topology& topology_;
  ContextsInUse& contexts_;
  Ledger& ledger_;
  Mutex& slow_turn_;
  std::map<DeviceId, ContextHandle> own_contexts_ VMART_GUARDED_BY(slow_turn_);
  Mutex mutex_;  // For look-ups only; never held in a driver call.
  std::map<std::pair<Location, Location>, std::unique_ptr<Route>> routes_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
