#pragma once

#include "base/mutex.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace vma {

class Allocation;

/// The right to move chunks of an allocation, or to free it; one thread at a time has it, from the
/// first chunk to the last. Keeps the allocation alive. Movable; empty once moved from.
///
/// Taken before `operations()`, never while that is held. Check `being_freed` after taking it.
class MoveClaim {
 public:
  MoveClaim() = default;
  /// Blocks: while another thread has it.
  static MoveClaim take(std::shared_ptr<Allocation> allocation);
  /// Those of all of them, each once. Taken in the order of their addresses, so that two threads
  /// that need several do not wait for each other; a thread that needs one more tries. Blocks:
  /// while other threads have one of them.
  static std::vector<MoveClaim> take_all(std::vector<std::shared_ptr<Allocation>> allocations);
  /// Empty if another thread has it.
  static MoveClaim try_take(std::shared_ptr<Allocation> allocation);
  MoveClaim(MoveClaim&& other) noexcept = default;
  MoveClaim& operator=(MoveClaim&& other) noexcept;
  ~MoveClaim();

  explicit operator bool() const noexcept { return allocation_ != nullptr; }

 private:
  explicit MoveClaim(std::shared_ptr<Allocation> allocation) noexcept;
  std::shared_ptr<Allocation> allocation_;
};

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
