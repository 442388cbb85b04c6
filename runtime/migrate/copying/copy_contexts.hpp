#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/contexts_in_use.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace vma {

/// What is stopped when a copy is enqueued.
enum class CopyUnder { nothing, gate, hold };

/// What moves the bytes. Copy engines leave the multiprocessors alone and are faster; but an unmap
/// waits for the copy between GPUs that one of them carries out, and not for a kernel (driver 580).
enum class CopyBy { engine, kernel };

enum class CopyContext {
  application,  ///< The GPU's primary context, which the program has opened.
  green,        ///< One that shares the primary context.
  own,          ///< One of the runtime's own: hundreds of MiB of HBM.
};

/// Facts about a GPU that the choice of a context depends on.
struct ContextFacts {
  bool application_active = false;
  bool own_exists = false;
  bool own_only = false;  ///< The program wants no copies in its contexts.
  bool green_is_apart = false;
};

/// The table of "Which context copies run in" in docs/internals/moves.md. Pure.
CopyContext choose_context(CopyUnder under, const ContextFacts& facts);

/// The contexts in which the runtime copies, which live as long as this: chooses one for each
/// route, creates those that the program does not have, and retains those that it has.
///
/// Any thread. What creates green contexts requires the turn for slow calls: creating one while
/// another is held may block until that ends. Own contexts take long, so `open_own` creates them
/// without it: that may block beside a hold, and keeps nobody else waiting.
class CopyContexts {
 public:
  /// `own_only`: never copies in a context of the program.
  CopyContexts(Driver& driver, const Topology& topology, ContextsInUse& contexts, Ledger& ledger,
               bool own_only);
  /// Requires: nothing of the contexts is left.
  ~CopyContexts();
  CopyContexts(const CopyContexts&) = delete;
  CopyContexts& operator=(const CopyContexts&) = delete;

  struct Chosen {
    DeviceId device{};
    CopyContext kind = CopyContext::own;
  };
  /// Where to copy between two places that the chosen GPU reaches both; none if no single GPU does.
  std::optional<Chosen> choose(Location from, Location to, CopyUnder under);
  Chosen choose_on(DeviceId device, CopyUnder under);
  /// Creates it if needed. Throws: Error; if the GPU has no room for it, the error says what to do.
  /// Requires: the caller has the turn for slow calls.
  ContextHandle open(Chosen chosen);
  /// The same for one of the runtime's own. The caller need not have that turn, and should not.
  ContextHandle open_own(DeviceId device);
  /// Whether a context of the runtime's own exists on the GPU.
  bool has_own(DeviceId device);
  /// How much of the GPU's memory that one takes, as far as could be seen when it was created.
  std::uint64_t own_bytes(DeviceId device);
  /// The program's context on the GPU has failed for good: it is not chosen again.
  void avoid(DeviceId device);

 private:
  ContextFacts facts_of(DeviceId device);
  using Made = std::map<DeviceId, ContextHandle>;
  Made& made(CopyContext kind) VMART_REQUIRES(mutex_) {
    return kind == CopyContext::green ? green_ : own_;
  }
  ContextHandle known(CopyContext kind, DeviceId device);
  ContextHandle keep(CopyContext kind, DeviceId device, ContextHandle context);
  ContextHandle make_own(DeviceId device);
  std::uint64_t free_bytes(DeviceId device) noexcept;
  std::vector<DeviceId> candidates(Location from, Location to) const;

  Driver& driver_;
  const Topology& topology_;
  ContextsInUse& contexts_;
  Ledger& ledger_;
  const bool own_only_;
  std::map<DeviceId, Mutex> creating_;  // The map is constant. Held while one is created there.
  Mutex mutex_;                         // Never held in a driver call.
  Made own_ VMART_GUARDED_BY(mutex_);
  Made green_ VMART_GUARDED_BY(mutex_);
  std::map<DeviceId, std::uint64_t> own_bytes_ VMART_GUARDED_BY(mutex_);
  std::set<DeviceId> avoided_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
