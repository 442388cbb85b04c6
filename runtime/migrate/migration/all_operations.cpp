#include "migrate/migration/all_operations.hpp"

#include <algorithm>

namespace vma {

AllOperations::AllOperations(std::vector<Allocation*> allocations) {
  std::ranges::sort(allocations, {}, [](const Allocation* which) { return which->begin(); });
  const auto repeated = std::ranges::unique(allocations);
  allocations.erase(repeated.begin(), repeated.end());
  for (Allocation* const each : allocations) locks_.emplace_back(each->operations());
}

}  // namespace vma
