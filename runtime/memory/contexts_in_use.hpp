#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/ledger.hpp"

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace vma {

/// The contexts whose work may touch the runtime's memory: the active primary contexts of its GPUs,
/// those of attached streams, those that the program tells of and the caller's current one. Other
/// contexts, current in other threads or in none, are not seen, as README.md documents.
///
/// Any thread. Events are created before anything is stopped, because creating one in a context
/// with stopped streams may hang, and they are kept for reuse.
class ContextsInUse {
 public:
  ContextsInUse(Driver& driver, const Topology& topology, Ledger& ledger);
  ~ContextsInUse();

  /// `named` returns more contexts whose work may touch the memory, from now on. It must not call
  /// back. Requires: no call is in progress.
  void name_more(std::function<std::vector<ContextHandle>()> named) { named_ = std::move(named); }

  /// The program has created the context, or is about to destroy it: it is in use in between. For
  /// all runtimes of the process.
  static void note_created(ContextHandle context);
  static void note_destroyed(ContextHandle context) noexcept;
  /// The contexts in use now, without the runtime's own. Throws: what the driver throws.
  std::vector<ContextHandle> list();
  /// The GPU's primary context, retained from now on; none if it is not active.
  ContextHandle primary(DeviceId device);
  /// A context of the runtime's own: never listed.
  void exclude(ContextHandle own);
  /// The context is about to be destroyed: its events are discarded.
  void forget(ContextHandle own) noexcept;

  /// An event of the context for the caller, who returns it with `give_back`.
  EventHandle take_event(ContextHandle context);
  /// Keeps the event if its context lasts (a primary one or the runtime's own); others may be
  /// destroyed at any time.
  void give_back(ContextHandle context, EventHandle event) noexcept;

  /// Waits for all work submitted before in every context in use, as cudaFree does. Ends no
  /// capture; launches of other threads may block until then. Blocks without limit. Throws:
  /// Error{driver_failure}: then the work may still run. A broken context runs nothing, so it
  /// counts as drained. Returns the contexts: work elsewhere may still run.
  std::vector<ContextHandle> await_work();

 private:
  void await_work(ContextHandle context);
  /// The last resort if the device has no memory left for an event. Ends captures.
  void wait_for_mark(ContextHandle context);
  bool lasts(ContextHandle context) const VMART_REQUIRES(mutex_);
  void release_primary(DeviceId device) noexcept;
  void destroy(EventHandle event) noexcept;

  Driver& driver_;
  const Topology& topology_;
  Ledger& ledger_;
  std::function<std::vector<ContextHandle>()> named_;
  Mutex mutex_;  // Never held in a driver call.
  std::map<DeviceId, ContextHandle> primaries_ VMART_GUARDED_BY(mutex_);  // Retained.
  std::set<ContextHandle> own_ VMART_GUARDED_BY(mutex_);
  std::map<ContextHandle, std::vector<EventHandle>> events_ VMART_GUARDED_BY(mutex_);
};

/// Whether a driver code means that its context is broken for good, so that none of its work runs.
bool context_is_broken(int native) noexcept;

}  // namespace vma
