#pragma once

#include "lab/bounds/loops/loop_graph.hpp"
#include "lab/bounds/loops/loop_prices.hpp"
#include "lab/bounds/loops/segment_path.hpp"
#include "lab/replay/replay_machine.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// Limits for the search for weights.
struct LoopBoundLimits {
  std::size_t rounds_max = 400;
  double work_max = 2e9;  ///< For all rounds; the unit is a pair of places of a use.
};

/// A lower bound for the time from the first event of a closed loop to the end of its last access,
/// whatever the policy. For any weights, the least weighted sum of all that takes time is a bound:
/// the search looks for the weights with the highest one. Deterministic.
class LoopBound {
 public:
  LoopBound(const LoopGraph& graph, const ReplayMachine& machine, const LoopBoundLimits& limits);

  /// The longest chain of tasks with each access at its best place.
  double critical_path_s() const;
  /// Seconds; at least `critical_path_s()`.
  double search();

 private:
  /// A part of a task that takes its time.
  enum class Kind : std::uint8_t { computing, access, part };
  struct Part {
    Kind kind = Kind::computing;
    std::uint32_t number = 0;  // Of the access, or of the link or place.
    double seconds = 0;
  };
  struct Chain {
    double seconds = 0;
    std::vector<std::uint32_t> tasks;
    std::vector<Part> parts;
  };

  double answer();
  Part longest_part(std::uint32_t task) const;
  Chain longest_chain() const;
  void follow(double share, double round);
  void follow_chain(const Chain& chain, double share, double weight);
  void price_room(double share);
  std::size_t rounds() const;

  const LoopGraph& graph_;
  const ReplayMachine& machine_;
  const LoopBoundLimits limits_;
  const LoopWindows windows_;
  LoopPrices prices_;
  SegmentPath path_;
  LoopWeights weights_;
  LoopLoads loads_, mean_;
  double byte_s_ = 0;  // The time of a byte on the slowest link.
};

}  // namespace vma
