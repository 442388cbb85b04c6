#include "lab/bounds/loops/loop_graph.hpp"

#include <algorithm>

namespace vma {
namespace {

constexpr std::size_t visited_max = 64;  // Tasks that `follows` looks at.

}  // namespace

bool LoopGraph::follows(std::uint32_t later, std::uint32_t earlier) const {
  const LoopTask& sought = tasks[earlier];
  std::vector<std::uint32_t> found{later};
  for (std::size_t next = 0; next < found.size() && found.size() <= visited_max; ++next) {
    for (const std::uint32_t before : befores_of(tasks[found[next]])) {
      const LoopTask& task = tasks[before];
      if (before == earlier || (task.chain == sought.chain && task.rank >= sought.rank))
        return true;
      if (before > earlier && std::ranges::find(found, before) == found.end())
        found.push_back(before);
    }
    const LoopTask& task = tasks[found[next]];
    if (found[next] != earlier && task.chain == sought.chain && task.rank > sought.rank)
      return true;
  }
  return false;
}

/// A task continues the chain of a predecessor of the same request, or without requests, of the
/// same device.
void LoopGraph::find_chains(std::span<const std::uint64_t> requests) {
  std::vector<bool> continued(tasks.size());
  for (std::uint32_t number = 0; number < tasks.size(); ++number) {
    LoopTask& task = tasks[number];
    task.chain = chains;
    for (const std::uint32_t before : befores_of(task)) {
      const LoopTask& other = tasks[before];
      if (continued[before] || requests[before] != requests[number]) continue;
      if (requests[number] == 0 && other.device != task.device) continue;
      task.chain = other.chain;
      task.rank = other.rank + 1;
      task.chain_begin_s = other.chain_begin_s + other.compute_s;
      continued[before] = true;
      break;
    }
    if (task.chain == chains) ++chains;
  }
}

void LoopGraph::find_order(const LoopSegment& segment) {
  const std::span<LoopUse> all = std::span(uses).subspan(segment.first_use, segment.uses);
  const LoopUse* last = nullptr;
  for (LoopUse& use : all) {
    use.ordered = last == nullptr || use.task == last->task || follows(use.task, last->task);
    if (use.ordered) last = &use;
  }
}

void LoopGraph::find_ends() {
  for (LoopTask& task : tasks) {
    task.head_s = task.release_s;
    for (const std::uint32_t before : befores_of(task))
      task.head_s = std::max(task.head_s, tasks[before].head_s + tasks[before].least_s);
  }
  for (std::size_t number = tasks.size(); number-- > 0;) {
    const LoopTask& task = tasks[number];
    for (const std::uint32_t before : befores_of(task)) {
      double& tail = tasks[before].tail_s;
      tail = std::max(tail, task.tail_s + task.least_s);
    }
  }
}

}  // namespace vma
