#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// A task of a closed loop with all its repetitions, or an access that belongs to none. Times are
/// in seconds from the first event.
struct LoopTask {
  double release_s = 0;  ///< It starts no earlier.
  double compute_s = 0;  ///< It takes no less.
  double least_s = 0;    ///< Nor less than this, with each access at its best place.
  double head_s = 0;     ///< A lower bound of its start.
  double tail_s = 0;     ///< A lower bound of the time from its end to the end of the trace.
  std::uint32_t device = 0;
  /// Tasks of one chain happen one after the other, in the order of their ranks.
  std::uint32_t chain = 0, rank = 0;
  double chain_begin_s = 0;  ///< The sum of `compute_s` of the earlier tasks of its chain.
  std::uint32_t first_access = 0, accesses = 0;
  std::uint32_t first_before = 0, befores = 0;
};

/// All accesses of a segment by one task's access, with all passes and repetitions.
struct LoopUse {
  std::uint32_t access = 0, task = 0;
  double read_bytes = 0, written_bytes = 0;
  double work_s = 0;  ///< The segment's share of the time that the access lasts at least.
  /// The access gets to the segment at least so often, after equal parts of its time.
  double visits = 1;
  bool ordered = false;  ///< It follows the previous such use of the segment.
};

/// A range of an object all of whose bytes are used alike.
struct LoopSegment {
  double bytes = 0;
  std::uint64_t begin_places = 0;  ///< One bit per place where it may begin at no cost.
  std::size_t first_use = 0, uses = 0;
};

/// A trace as a graph of tasks, without a schedule: what can be said about all its replays. Objects
/// are divided into segments instead of chunks, as if each byte could move alone. A plain value,
/// filled by `LoopGraphBuilder`.
struct LoopGraph {
  std::vector<LoopTask> tasks;  ///< Each after those that it waits for.
  std::vector<std::uint32_t> befores;
  std::vector<std::uint32_t> access_tasks;  ///< By access.
  std::vector<LoopUse> uses;                ///< By segment, then in the order of the tasks.
  std::vector<LoopSegment> segments;
  std::uint32_t chains = 0;

  std::span<const std::uint32_t> befores_of(const LoopTask& task) const {
    return std::span(befores).subspan(task.first_before, task.befores);
  }
  std::span<const LoopUse> uses_of(const LoopSegment& segment) const {
    return std::span(uses).subspan(segment.first_use, segment.uses);
  }
  /// Whether `later` surely starts after the end of `earlier`. May miss that, for distant tasks.
  bool follows(std::uint32_t later, std::uint32_t earlier) const;
  /// Assigns chains. Requires: tasks, with their predecessors. `requests` has the number of each
  /// task's request, 0 for none.
  void find_chains(std::span<const std::uint64_t> requests);
  /// Marks the uses of a segment that follow each other.
  void find_order(const LoopSegment& segment);
  /// Computes heads and tails. Requires: `least_s`.
  void find_ends();
};

}  // namespace vma
