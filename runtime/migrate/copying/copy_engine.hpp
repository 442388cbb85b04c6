#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/chunk.hpp"
#include "memory/contexts_in_use.hpp"
#include "migrate/copying/copy_contexts.hpp"

#include <array>
#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// Copies between chunks, through their staging mappings, and between chunks and the caller's
/// memory, in contexts that `CopyContexts` chooses: those of the program while nothing is
/// stopped, others under a gate or a hold.
///
/// A route, which is a pair of places and what is stopped, is set up when a copy first needs it,
/// under the turn for slow calls, which a hold has: creating a context while another is held blocks
/// until the hold ends. Between GPUs that cannot reach each other the bytes go through pinned host
/// memory in pieces. Any thread.
class CopyEngine {
 public:
  /// A copy in progress. Pass it to `wait` once.
  struct Copy {
    ContextHandle context{};
    EventHandle done{};
  };

  /// `slow_turn` belongs to the slow-call queue. `own_contexts`: copies never run in contexts of
  /// the program.
  CopyEngine(Driver& driver, const Topology& topology, ContextsInUse& contexts, Ledger& ledger,
             Mutex& slow_turn, bool own_contexts = false);
  ~CopyEngine();

  /// Creates what `copies` copies at a time on the route need; call it before anything is stopped.
  /// Blocks: for a fifth of a second if a context is new. Requires: the caller does not hold the
  /// slow turn.
  void prepare(Place from, Place to, std::size_t copies, CopyUnder under);
  /// A stream of a prepared route that nothing else uses, for a hold to wait on.
  BoundStream spare_stream(Place from, Place to, CopyUnder under);
  /// The same for a hold that copies nothing, of memory at that place; prepares it. Requires and
  /// blocks: as `prepare`.
  BoundStream stream_of_hold(Place at);
  /// A context of the runtime's own on the GPU. Blocks: for a tenth of a second if it is new.
  ContextHandle own_context(DeviceId device) { return choice_.open_own(device); }
  /// As `CopyContexts::own_bytes`.
  std::uint64_t own_context_bytes(DeviceId device) { return choice_.own_bytes(device); }

  /// Whether copies of a hold can be enqueued just before it, in contexts of the program, so that
  /// it needs none of the runtime's own. False after `distrust_ahead`.
  bool can_copy_ahead(Place from, Place to);
  /// Whether copies under a hold would create a context.
  bool hold_creates_context(Place from, Place to);
  /// Such a copy did not run.
  void distrust_ahead() noexcept { trusts_ahead_ = false; }
  /// Later copies on the route wait for the events. Requires: `prepare` was called for the route.
  void order_after(Place from, Place to, CopyUnder under, std::span<const EventHandle> events);

  /// Requires: `prepare` was called for the route, and `has_kernel` for copies by one. Copies on
  /// one route run in order. Throws: then none of it runs, or both chunks are `busy()`; waits for
  /// that until `deadline`.
  Copy enqueue(const Chunk& source, const Chunk& target, CopyUnder under,
               TimePoint deadline = never, CopyBy by = CopyBy::engine);
  /// Whether kernels can copy on the route: between GPUs, under a hold, in a context of the
  /// runtime's own. Requires: `prepare` was called for the route.
  bool has_kernel(Place from, Place to, CopyUnder under);
  /// Whether the copy is done, after waiting for it until `deadline`.
  bool wait_until(const Copy& copy, TimePoint deadline);
  /// Blocks. Throws: what the copy failed with; then it may still be running.
  void wait(const Copy& copy);
  /// Called in place of `wait`: the copy may never end.
  void give_up(const Copy& copy) noexcept { contexts_.give_back(copy.context, copy.done); }

  /// Copies between the caller's memory and bytes of a chunk, at an address that shows them. Blocks
  /// until done. Throws: Error{driver_failure}; if the driver cannot wait for the end, the message
  /// says so, the caller's memory may still be read or written, and the chunk is `busy()`.
  void read(const Chunk& chunk, Address from, std::span<std::byte> out);
  void write(const Chunk& chunk, Address to, std::span<const std::byte> bytes);
  /// What the caller of `zero` does about it; each may be empty.
  struct ZeroSteps {
    std::function<void(DeviceId)> before;  ///< With the GPU that fills, which needs access.
    std::function<void()> beside;          ///< While the fill runs.
    std::function<void()> lost;            ///< If the driver cannot wait for the end.
  };
  /// Fills a range of chunks at one place with zeros: one fill and one wait. Blocks until done.
  /// Throws: Error{driver_failure}, and what the steps throw; then no fill runs, or it is `lost`.
  void zero(Place at, Address begin, std::uint64_t size_bytes, const ZeroSteps& steps = {});

 private:
  struct Bounce {  // A pair of pinned buffers, used alternately.
    Bounce(Driver& of, Ledger& notes) : driver(of), ledger(notes) {}
    ~Bounce();
    Bounce(const Bounce&) = delete;
    Bounce& operator=(const Bounce&) = delete;

    Driver& driver;
    Ledger& ledger;
    BoundStream second;
    std::array<void*, 2> buffers{};
    std::array<EventHandle, 2> filled{};
    std::array<EventHandle, 2> emptied{};
    bool used = false;
  };
  struct Route {
    Route(Driver& of, Ledger& notes) : driver(of), ledger(notes) {}
    ~Route();
    Route(const Route&) = delete;
    Route& operator=(const Route&) = delete;

    Driver& driver;
    Ledger& ledger;
    Mutex enqueuing;           // Keeps the pieces of one bounced copy together.
    DeviceId device{};         // Whose copies they are.
    bool application = false;  // It runs in that GPU's primary context.
    BoundStream stream;
    BoundStream spare;
    KernelHandle kernel{};  // None if only copy engines are used.
    LaunchShape shape{};
    std::unique_ptr<Bounce> bounce;  // Null if one device reaches both ends.
  };
  struct Key {
    Place from, to;
    CopyUnder under;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  DeviceId default_device(Place from, Place to) const;
  Route* find(const Key& key);
  Route& route(const Key& key);
  Route& prepared(const Key& key);
  std::unique_ptr<Route> make_route(const Key& key) VMART_REQUIRES(slow_turn_);
  std::unique_ptr<Bounce> make_bounce(ContextHandle first, DeviceId second, CopyUnder under)
      VMART_REQUIRES(slow_turn_);
  void load_kernel(Route& route, DeviceId device) VMART_REQUIRES(slow_turn_);
  bool leave(const Key& key, const Route& broken);
  template <typename Body>
  void on_route(Place at, Body&& body);
  void enqueue_bounced(Route& route, Address target, Address source, std::uint64_t size_bytes);
  Copy mark(BoundStream stream);
  /// `what` names the work that runs on the stream, for errors.
  void finish(BoundStream stream, const char* what, const std::function<void()>& lost);
  /// Waits until no work of the stream runs, even if the first waits fail. If all waits fail, or
  /// `deadline` passes, returns false and counts a leak.
  bool settle(BoundStream stream, TimePoint deadline = never) noexcept;

  Driver& driver_;
  const Topology& topology_;
  ContextsInUse& contexts_;
  Ledger& ledger_;
  Mutex& slow_turn_;
  CopyContexts choice_;
  std::atomic<bool> trusts_ahead_{true};
  Mutex mutex_;  // For look-ups only; never held in a driver call.
  std::map<Key, std::unique_ptr<Route>> routes_ VMART_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Route>> left_ VMART_GUARDED_BY(mutex_);  // Perhaps still in use.
};

}  // namespace vma
