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
  LiveCopier* find(DeviceId device) const noexcept;
  /// The same, leased; null if another move has it. Throws and blocks: as `LiveCopiers::get`.
  LiveCopier* try_take(DeviceId device) VMART_NO_THREAD_ANALYSIS;
  bool has(const LiveCopier* copier) const noexcept;
  /// Requires: nothing of this move is in a bay.
  void give_up_all() noexcept VMART_NO_THREAD_ANALYSIS;

 private:
  struct Lease {
    DeviceId device{};
    LiveCopier* copier = nullptr;
  };

  LiveCopiers& copiers_;
  std::vector<Lease> leases_;
};

}  // namespace vma
