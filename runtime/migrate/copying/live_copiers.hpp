#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/copying/copy_engine.hpp"
#include "migrate/copying/live_copier.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace vma {

/// The live copiers of one runtime, at most two a GPU: one in the application's context, which is
/// retained meanwhile, and one in a context of the runtime. Each is created when a move first needs
/// it, and kept. Any thread.
class LiveCopiers {
 public:
  LiveCopiers(Memory& memory, CopyEngine& engine, const LiveTuning& tuning);
  /// Requires: no copier is in use any more.
  ~LiveCopiers();
  LiveCopiers(const LiveCopiers&) = delete;
  LiveCopiers& operator=(const LiveCopiers&) = delete;

  /// Creates, on first use, what live copies off the GPU need. `own`: in a context of the runtime's
  /// own. Blocks: loads kernels. Requires: the caller holds no turn.
  LiveCopier& get(DeviceId device, bool own);
  /// That of a context of the runtime's own, if it is there already; otherwise null, and it is
  /// wanted. Not
  /// leased by a move for which it digests at the target, since it only serves leased ones.
  LiveCopier* find_own(DeviceId device);
  /// GPUs whose own copiers were wanted since the last call.
  std::set<DeviceId> take_wanted();
  /// It could not be created: until ten seconds have passed, it is not wanted.
  void put_off(DeviceId device);
  /// Before anything is stopped, where an unmap would wait for them: the copies of all moves by
  /// engines end. Blocks: for as long as they take, a second at most. Requires: the caller holds
  /// the turn for slow calls.
  void await_engines() noexcept;
  /// The application's context on the GPU, which is retained; none if it is not active. Requires:
  /// as `get`.
  ContextHandle application_context(DeviceId device);
  /// How much of its GPU's memory each copier takes.
  std::uint64_t table_bytes() const;

 private:
  Memory& memory_;
  CopyEngine& engine_;
  const LiveTuning tuning_;
  Mutex mutex_;  // Held while one is created; taken before the turn for slow calls.
  std::map<DeviceId, ContextHandle> applications_ VMART_GUARDED_BY(mutex_);  // Retained.
  std::map<std::pair<DeviceId, bool>, std::unique_ptr<LiveCopier>> copiers_
      VMART_GUARDED_BY(mutex_);
  std::map<DeviceId, std::atomic<LiveCopier*>> own_;  // The map is constant. Null: not there yet.
  Mutex wanted_mutex_;                                // Never held in a driver call.
  std::set<DeviceId> wanted_ VMART_GUARDED_BY(wanted_mutex_);
  std::map<DeviceId, TimePoint> put_off_until_ VMART_GUARDED_BY(wanted_mutex_);
};

/// The live copiers that one move has to itself: those whose `turn` it holds. One thread.
class CopierLeases {
 public:
  explicit CopierLeases(LiveCopiers& copiers) : copiers_(copiers) {}
  ~CopierLeases() { give_up_all(); }
  CopierLeases(const CopierLeases&) = delete;
  CopierLeases& operator=(const CopierLeases&) = delete;

  /// The copier of the GPU, leased from now on; null if another move has it. Throws and blocks: as
  /// `LiveCopiers::get`.
  LiveCopier* try_take(DeviceId device, bool own) VMART_NO_THREAD_ANALYSIS;
  bool has(const LiveCopier* copier) const noexcept;
  /// Requires: nothing of this move is in a bay.
  void give_up_all() noexcept VMART_NO_THREAD_ANALYSIS;

 private:
  struct Lease {
    DeviceId device{};
    bool own = false;  ///< In the runtime's own context.
    LiveCopier* copier = nullptr;
  };

  LiveCopiers& copiers_;
  std::vector<Lease> leases_;
};

}  // namespace vma
