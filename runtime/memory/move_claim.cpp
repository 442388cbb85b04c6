#include "memory/move_claim.hpp"

#include "memory/allocation.hpp"

#include <utility>

namespace vma {

MoveClaim::MoveClaim(std::shared_ptr<Allocation> allocation) noexcept
    : allocation_(std::move(allocation)) {}

MoveClaim MoveClaim::take(std::shared_ptr<Allocation> allocation) {
  allocation->begin_move();
  return MoveClaim(std::move(allocation));
}

MoveClaim MoveClaim::try_take(std::shared_ptr<Allocation> allocation) {
  return allocation->try_begin_move() ? MoveClaim(std::move(allocation)) : MoveClaim();
}

MoveClaim& MoveClaim::operator=(MoveClaim&& other) noexcept {
  std::swap(allocation_, other.allocation_);
  return *this;
}

MoveClaim::~MoveClaim() {
  if (allocation_) allocation_->end_move();
}

}  // namespace vma
