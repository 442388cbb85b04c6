#include "migrate/migration/all_operations.hpp"

#include <algorithm>
#include <utility>

namespace vma {

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
