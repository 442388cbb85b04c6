#pragma once

#include "base/mutex.hpp"
#include "memory/allocation.hpp"

#include <deque>
#include <vector>

namespace vma {

/// Has `operations()` of several allocations. Taken in the order of their addresses, as everywhere:
/// no two threads that need several of them wait for each other.
class AllOperations {
 public:
  /// An allocation may be named more than once. Blocks: while another thread has one of them.
  explicit AllOperations(std::vector<Allocation*> allocations) VMART_NO_THREAD_ANALYSIS;
  AllOperations(const AllOperations&) = delete;
  AllOperations& operator=(const AllOperations&) = delete;

 private:
  std::deque<MutexLock> locks_;
};

}  // namespace vma
