#pragma once

#include "migrate/copying/live_copiers.hpp"

#include <vector>

namespace vma {

/// The live copiers that one move has to itself: those whose `turn` it holds. One thread.
class CopierLeases {
 public:
  explicit CopierLeases(LiveCopiers& copiers) : copiers_(copiers) {}
  ~CopierLeases() { give_up_all(); }
  CopierLeases(const CopierLeases&) = delete;
  CopierLeases& operator=(const CopierLeases&) = delete;

  /// The copier of the GPU; null if it is not leased.
  LiveCopier* find(DeviceId device, bool own) const noexcept;
  /// The same, leased; null if another move has it. Throws and blocks: as `LiveCopiers::get`.
  LiveCopier* try_take(DeviceId device, bool own) VMART_NO_THREAD_ANALYSIS;
  bool has(const LiveCopier* copier) const noexcept;
  /// What digests at the target in a context of the runtime's own: not leased, since it only serves
  /// leased ones. Null if it is not there yet.
  LiveCopier* digester(DeviceId target) { return copiers_.find_own(target); }
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
