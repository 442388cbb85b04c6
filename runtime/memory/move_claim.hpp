#pragma once

#include <memory>

namespace vma {

class Allocation;

/// The right to move chunks of an allocation, or to free it; one at a time has it, from its first
/// chunk to its last. Keeps the allocation alive. Movable; empty once moved from.
///
/// Taken before `operations()`, never while that is held. Who has taken it looks at `being_freed`.
class MoveClaim {
 public:
  MoveClaim() = default;
  /// Blocks: until nobody else has it.
  static MoveClaim take(std::shared_ptr<Allocation> allocation);
  /// Empty if somebody else has it.
  static MoveClaim try_take(std::shared_ptr<Allocation> allocation);
  MoveClaim(MoveClaim&& other) noexcept = default;
  MoveClaim& operator=(MoveClaim&& other) noexcept;
  ~MoveClaim();

  explicit operator bool() const noexcept { return allocation_ != nullptr; }

 private:
  explicit MoveClaim(std::shared_ptr<Allocation> allocation) noexcept;
  std::shared_ptr<Allocation> allocation_;
};

}  // namespace vma
