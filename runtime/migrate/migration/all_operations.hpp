#pragma once

#include "base/mutex.hpp"
#include "memory/allocation.hpp"

#include <cstddef>
#include <vector>

namespace vma {

/// `operations()` of several allocations, in the order of their addresses, as everywhere: no two
/// threads that need several of them wait for each other. One thread.
class AllOperations {
 public:
  /// Takes none yet. An allocation may be named more than once.
  explicit AllOperations(std::vector<Allocation*> allocations);
  ~AllOperations() { let_go(); }
  AllOperations(const AllOperations&) = delete;
  AllOperations& operator=(const AllOperations&) = delete;

  /// Blocks: while other threads have one.
  void take() VMART_NO_THREAD_ANALYSIS;
  /// False if another thread has one. Those before it are kept.
  bool try_take() VMART_NO_THREAD_ANALYSIS;
  void let_go() noexcept VMART_NO_THREAD_ANALYSIS;

 private:
  std::vector<Allocation*> allocations_;
  std::size_t taken_ = 0;
};

}  // namespace vma
