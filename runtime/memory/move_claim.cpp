#include "memory/move_claim.hpp"

#include "memory/allocation.hpp"

#include <algorithm>
#include <utility>

namespace vma {

MoveClaim::MoveClaim(std::shared_ptr<Allocation> allocation) noexcept
    : allocation_(std::move(allocation)) {}

MoveClaim MoveClaim::take(std::shared_ptr<Allocation> allocation) {
  allocation->begin_move();
  return MoveClaim(std::move(allocation));
}

std::vector<MoveClaim> MoveClaim::take_all(std::vector<std::shared_ptr<Allocation>> allocations) {
  std::ranges::sort(allocations, {}, [](const auto& which) { return which->begin(); });
  const auto repeated = std::ranges::unique(allocations);
  allocations.erase(repeated.begin(), repeated.end());
  std::vector<MoveClaim> claims;
  claims.reserve(allocations.size());
  for (std::shared_ptr<Allocation>& each : allocations) claims.push_back(take(std::move(each)));
  return claims;
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

AllOperations::AllOperations(std::vector<Allocation*> allocations)
    : allocations_(std::move(allocations)) {
  std::ranges::sort(allocations_, {}, [](const Allocation* which) { return which->begin(); });
  const auto repeated = std::ranges::unique(allocations_);
  allocations_.erase(repeated.begin(), repeated.end());
}

void AllOperations::take() {
  for (; taken_ < allocations_.size(); ++taken_) allocations_[taken_]->operations().lock();
}

bool AllOperations::try_take() {
  while (taken_ < allocations_.size() && allocations_[taken_]->operations().try_lock()) ++taken_;
  return taken_ == allocations_.size();
}

void AllOperations::let_go() noexcept {
  while (taken_ > 0) allocations_[--taken_]->operations().unlock();
}

}  // namespace vma
