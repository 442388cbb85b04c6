#include "sim/sim_context.hpp"

#include <algorithm>

namespace vma {

std::vector<CompletionPtr> SimContext::standing_holds() {
  std::erase_if(holds, [this](const CompletionPtr& hold) {
    if (!Progress::is_done(*hold)) return false;
    knows.join(hold->knows);
    held_until = std::max(held_until, hold->at);
    return true;
  });
  if (shared == nullptr) return holds;
  std::vector<CompletionPtr> all = shared->standing_holds();
  knows.join(shared->knows);
  held_until = std::max(held_until, shared->held_until);
  all.insert(all.end(), holds.begin(), holds.end());
  return all;
}

}  // namespace vma
