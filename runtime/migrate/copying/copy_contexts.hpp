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
  own,          ///< One of the runtime's own: hundreds of MiB of HBM.
};

/// Facts about a GPU that the choice of a context depends on.
struct ContextFacts {
  bool application_active = false;
  bool own_exists = false;
  bool own_only = false;  ///< The program wants no copies in its contexts.
};

/// The table of "Which context copies run in" in README.md here. Pure.
CopyContext choose_context(CopyUnder under, const ContextFacts& facts);

/// The contexts in which the runtime copies, which live as long as this: chooses one for each
/// route, creates those that the program does not have, and retains those that it has.
///
/// Any thread. Own contexts take long, so `open_own` creates them without the turn for slow calls:
/// that may block beside a hold, and keeps nobody else waiting.
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
  std::optional<Chosen> choose(Place from, Place to, CopyUnder under);
  Chosen choose_on(DeviceId device, CopyUnder under);
  /// One of the runtime's own if the program has closed its context since.
  ContextHandle open(Chosen chosen);
  /// Creates it if needed; the caller should not have the turn for slow calls. Throws: Error; if
  /// the GPU has no room for it, the error says what to do.
  ContextHandle open_own(DeviceId device);
  /// Whether a context of the runtime's own exists on the GPU.
  bool has_own(DeviceId device);
  /// How much of the GPU's memory that one takes, as far as could be seen when it was created.
  std::uint64_t own_bytes(DeviceId device);
  /// The program's context on the GPU has failed for good: it is not chosen again.
  void avoid(DeviceId device);

 private:
  ContextFacts facts_of(DeviceId device);
  ContextHandle make_own(DeviceId device);
  std::uint64_t free_bytes(DeviceId device) noexcept;
  std::vector<DeviceId> candidates(Place from, Place to) const;

  Driver& driver_;
  const Topology& topology_;
  ContextsInUse& contexts_;
  Ledger& ledger_;
  const bool own_only_;
  std::map<DeviceId, Mutex> creating_;  // The map is constant. Held while one is created there.
  Mutex mutex_;                         // Never held in a driver call.
  std::map<DeviceId, ContextHandle> own_ VMART_GUARDED_BY(mutex_);
  std::map<DeviceId, std::uint64_t> own_bytes_ VMART_GUARDED_BY(mutex_);
  std::set<DeviceId> avoided_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
