#pragma once

#include "base/listener.hpp"
#include "base/part.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk_store.hpp"
#include "memory/contexts_in_use.hpp"
#include "memory/geometry.hpp"
#include "memory/move_claim.hpp"
#include "memory/pressure.hpp"
#include "memory/registry.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vma {

class Allocation;

/// Follows which allocations exist, for the layers above; set by `Memory::watch`. Called on the
/// thread that makes, frees or changes one, without a lock of the memory; that thread may have a
/// move claim of the allocation. Must not throw, nor wait for a move.
class MemoryWatcher {
 public:
  virtual ~MemoryWatcher() = default;
  /// The allocation is registered; its pointer has not been returned to any caller yet.
  virtual void made(const std::shared_ptr<Allocation>& allocation) noexcept = 0;
  /// The allocation is about to be forgotten; no other can get its addresses before this returns.
  /// Not called for what still exists when the runtime shuts down.
  virtual void freed(Address begin) noexcept = 0;
  /// What keeps it in place, or what may be done with it, has changed: a pin, a view, an export, a
  /// hook, a read-only scope.
  virtual void changed(const Allocation&) noexcept {}
};

/// What the runtime itself asks of an allocation, beyond what its users can.
struct AllocTerms {
  /// Called with the allocation before any other thread can find, move or free it. If it throws,
  /// the memory is released, and `alloc` rethrows.
  std::function<void(const Allocation&)> fill{};
  /// Where the program wants it, if the runtime chose another place.
  std::optional<Place> wanted{};
  /// GPUs that the program named as readers.
  std::vector<DeviceId> readers{};
  /// How its chunks have to be able to leave the process, besides what the options say.
  ExportTypes export_needs{};
};

/// Where imported memory comes from.
struct ImportTerms {
  std::string tag;
  std::string from;                   ///< Such as "process 4711"; not empty.
  std::shared_ptr<const void> lease;  ///< Released after the memory.
};

/// The work that a stream had enqueued at one moment.
struct WorkMark {
  EventHandle event{};
  BoundStream stream;
  bool warned = false;
};

/// The allocations of one runtime: makes them of chunks, finds them, and takes them back. Any
/// thread.
class Memory final : public Part {
 public:
  Memory(Driver& driver, const Topology& topology, const MemoryLimits& limits);
  ~Memory();

  /// Throws: Error{out_of_memory, invalid_argument, driver_failure}; then nothing has changed.
  /// Blocks: for the presser, if there is no room. Requires: the caller holds no lock.
  std::shared_ptr<Allocation> alloc(std::uint64_t size_bytes, Place at, const AllocOptions& options,
                                    const AllocTerms& terms = {});
  /// The same for what was planned before. Requires: `geometry` comes from `plan_geometry`; the
  /// chunk size in the options is ignored.
  std::shared_ptr<Allocation> alloc(const Geometry& geometry, Place at, const AllocOptions& options,
                                    const AllocTerms& terms = {});
  /// The same with a home for each slot. Throws: Error{invalid_argument} if the number of homes is
  /// wrong.
  std::shared_ptr<Allocation> alloc(const Geometry& geometry, std::span<const Place> homes,
                                    const AllocOptions& options, const AllocTerms& terms = {});
  /// An allocation of another process's memory, one imported chunk for each slot. It does not move,
  /// and a free of it only lets go of the memory. Throws: as `alloc`; then the chunks are released.
  std::shared_ptr<Allocation> import(const Geometry& geometry, std::vector<Chunk> chunks,
                                     const ImportTerms& terms);
  /// An allocation of these chunks at addresses that the caller has reserved, and keeps reserved
  /// until `withdraw`. Requires: one chunk for each slot, of its size, idle. Throws: as `alloc`;
  /// then `chunks` holds those that could be taken back.
  std::shared_ptr<Allocation> show_at(Address begin, const Geometry& geometry,
                                      std::vector<Chunk>& chunks, const AllocOptions& options,
                                      const AllocTerms& terms);
  /// Ends such an allocation and returns its chunks with their bytes, one for each slot; a slot
  /// that had none, or could not be unmapped, yields an empty one. Blocks: until a running move of
  /// it has ended; not for work, which must not use the memory any more. Throws:
  /// Error{unknown_pointer, pinned}.
  std::vector<Chunk> withdraw(Address begin);
  /// Chunks for all slots at `at`, as for an allocation; other memory makes way for them only if
  /// `make_room`. Throws and blocks: as `alloc`.
  std::vector<Chunk> obtain(const Geometry& geometry, Place at, const ExportTypes& needs,
                            bool make_room);
  /// Waits for the work before it, then takes the memory back. `begin` is an allocation's start.
  /// Calls on it meanwhile report that it is being freed, though the wait may yet fail. Returns the
  /// contexts that it waited for.
  std::vector<ContextHandle> free(Address begin) { return free(begin, true); }
  /// The same without the wait for work. Requires: no work uses the memory.
  void free_unused(Address begin) { free(begin, false); }
  /// From now on `told` is called with the start of each freed allocation, before another
  /// allocation can get its addresses. It must not throw. Requires: no call is in progress.
  void tell_freed(std::function<void(Address)> told) { told_freed_ = std::move(told); }
  /// One watcher at a time; null removes it. Blocks: while the former watcher is being called.
  void watch(MemoryWatcher* watcher);
  /// Tells the watcher. Requires: the caller holds no lock.
  void tell_changed(const Allocation& allocation) noexcept;
  /// One presser at a time; an empty one removes it. Blocks: while the former makes room.
  void on_pressure(MemoryPressure::Presser presser) { pressure_.set(std::move(presser)); }
  /// Frees once `stream` has done what is now enqueued on it. Does not wait.
  void free_async(Address begin, BoundStream stream);
  /// The same for work of several moments; gives the marks back. If it throws, they are the
  /// caller's.
  void free_after(Address begin, std::vector<WorkMark>& marks);
  /// What is now enqueued on the stream, for `free_after` or `give_back`. Throws:
  /// Error{invalid_argument} while it captures.
  WorkMark mark(BoundStream stream, const char* call);
  bool has_ended(WorkMark& mark) noexcept;
  void give_back(const WorkMark& mark) noexcept;

  /// Frees at once, without waiting for anything. Requires: no work uses the memory. Throws:
  /// Error{pinned}, and {busy} while it moves or another call uses it; then nothing has changed.
  void free_idle(Address begin);

  /// The allocation that starts at the address; `call` names the caller in errors. Throws:
  /// Error{unknown_pointer}.
  std::shared_ptr<Allocation> require(const void* pointer, const char* call) const;
  /// The allocation around the address, otherwise like `require`.
  std::shared_ptr<Allocation> require_around(const void* pointer, const char* call) const;

  /// Returns what `body` does; while it throws Error{out_of_memory} and `ask` is true, retries it.
  /// `ask` is a `MemoryPressure::Want`, or calls one: with the place, and how many of `size_bytes`
  /// lack there. Throws: what `body` throws; an Error{out_of_memory} then lists what uses the
  /// memory at `at`.
  template <typename Ask, typename Body>
  auto with_room(Ask&& ask, Place at, std::uint64_t size_bytes, Body&& body);

  Driver& driver() noexcept { return driver_; }
  const Topology& topology() const noexcept { return topology_; }
  ChunkStore& chunks() noexcept { return chunks_; }
  const ChunkStore& chunks() const noexcept { return chunks_; }
  MemoryPressure& pressure() noexcept { return pressure_; }
  Registry& registry() noexcept { return registry_; }
  const Registry& registry() const noexcept { return registry_; }
  ContextsInUse& contexts() noexcept { return contexts_; }

  /// Checks that the ledger has booked what allocations, cache and the runtime's own chunks hold,
  /// and what chunks of `obtain` and `withdraw` hold at each place. Requires: no call is in
  /// progress.
  void check_invariants(std::map<Place, std::uint64_t> held = {});
  /// Gives everything back, including users' memory, or counts it as leaked (I5). No further calls
  /// are allowed.
  void release() noexcept override;
  /// Nobody is asked for room any more. Blocks: while somebody makes some.
  void finish() noexcept override { on_pressure({}); }

 private:
  std::shared_ptr<Allocation> build(const Geometry& geometry, std::span<const Place> homes,
                                    const ExportTypes& needs);
  std::shared_ptr<Allocation> build(const Geometry& geometry, std::vector<Chunk> chunks);
  void show(Allocation& allocation, std::vector<Chunk>& chunks);
  std::vector<Chunk> obtain_all(const Geometry& geometry, std::span<const Place> homes,
                                const ExportTypes& needs, bool make_room = true);
  std::shared_ptr<Allocation> enter(std::shared_ptr<Allocation> allocation,
                                    const AllocOptions& options, const AllocTerms& terms);
  Error with_holders(const Error& error, Place at) const;
  std::vector<ContextHandle> free(Address begin, bool awaits_work);
  void unregister(Address begin) noexcept;
  std::shared_ptr<Allocation> claim_for_free(Address begin, const char* call);

  Driver& driver_;
  const Topology& topology_;
  ChunkStore chunks_;  // Its queue's calls use the members below: `release` stops it first.
  Registry registry_;
  std::atomic<std::uint64_t> entered_{0};  // Allocations so far.
  ContextsInUse contexts_;
  std::function<void(Address)> told_freed_;
  Listener<MemoryWatcher> watcher_;
  MemoryPressure pressure_;
};

template <typename Ask, typename Body>
auto Memory::with_room(Ask&& ask, Place at, std::uint64_t size_bytes, Body&& body) {
  // Nothing leaves the place for what would not fit into all of it.
  const bool fits = at.kind != Place::Kind::gpu || size_bytes <= topology_.memory_bytes(at);
  while (true) {
    try {
      return body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      const std::uint64_t room = chunks_.room_bytes(at);  // Enough, where only the driver has none.
      const std::uint64_t lacking = size_bytes > room ? size_bytes - room : size_bytes;
      if (!fits || !ask(at, lacking)) throw with_holders(error, at);
    }
  }
}

}  // namespace vma
