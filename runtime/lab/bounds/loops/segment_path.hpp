#pragma once

#include "lab/bounds/loops/loop_graph.hpp"
#include "lab/bounds/loops/loop_prices.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// The cheapest places of one segment at some prices. Ordered uses form a path, with moves between
/// them and room for what lies; each other use is at its own cheapest place. If there are others,
/// the answer may be one without order instead: all uses at one place, at two with a move, or each
/// at its own with two moves. The dearer of the two is the better bound. Not thread-safe.
/// One owner: one dynamic program and its tables, kept so that a further segment allocates less.
class SegmentPath {
 public:
  SegmentPath(const LoopGraph& graph, const ReplayMachine& machine, const LoopWindows& windows,
              const LoopPrices& prices);

  /// Returns the cost, and adds to `loads` what the cheapest answer uses.
  double operator()(const LoopSegment& segment, LoopLoads& loads);

 private:
  /// All ordered uses by one task.
  struct Step {
    std::size_t first = 0, last = 0;  // Their range among the segment's uses.
    std::uint32_t task = 0;
    std::uint32_t stretch = 0;  // In which the segment moves before and during the step.
    double gap_s = 0;           // It lies at least so long between the previous step and this.
    double lies_s = 0;          // And so long during this one, if it does not move.
    double units = 0;           // A move spoils at most one of so many equal parts of the step.
    double room = 0;            // Price of a byte in the HBM when the step starts.
    double gap_room = 0;        // Sum of those of other tasks since the previous step.
    bool same_chain = false;    // As the previous step.
    double spoiled = 0;         // Least cost of a unit with a move, and with room at an end of it.
    std::size_t spoiled_from = 0, spoiled_to = 0;
    double best = 0;  // The cheapest place for all of it, with room.
    std::size_t best_at = 0;
  };
  /// How the cheapest path gets to a place after a step.
  struct Cell {
    std::uint8_t before = 0;   // Its place after the previous step.
    std::uint8_t between = 0;  // Between the two.
    bool stays = true;         // During the step; otherwise it moves.
  };

  /// A way to serve all uses of a segment, in any order.
  struct Visits {
    double cost = unreachable;
    std::size_t first = 0, second = 0;  // The places; the same if it never moves.
    bool everywhere = false;            // Each use is at its own best place.
  };

  Visits fewest_visits(const LoopSegment& segment);
  void add_visits(const LoopSegment& segment, const Visits& visits, LoopLoads& loads) const;
  std::size_t best_place(const LoopUse& use) const;
  void find_steps(const LoopSegment& segment);
  void price(Step& step, const LoopSegment& segment, std::span<double> costs) const;
  double lie_between(const Step& step, std::size_t place) const;
  void advance(const Step& step, std::span<const double> costs, double bytes);
  void trace_back(const LoopSegment& segment, LoopLoads& loads);
  double walk(const LoopSegment& segment);
  double move_share(const Step& step, double moves) const;
  void find_spoiled(Step& step, double bytes) const;
  void add_spoiled(const Step& step, double bytes, LoopLoads& loads) const;
  double with_moves(const Step& step, double moves) const;

  const LoopGraph& graph_;
  const ReplayMachine& machine_;
  const LoopPrices& prices_;
  const LoopWindows& windows_;
  const std::size_t places_;
  std::vector<Step> steps_;
  std::vector<double> step_costs_;  // [step][place]
  std::vector<Cell> cells_;         // [step][place]
  std::vector<double> now_, between_, next_;
  std::vector<std::uint8_t> from_;
  std::vector<double> use_costs_;  // [use][place], of `fewest_visits`.
  std::uint32_t visits_stretch_ = 0;
};

}  // namespace vma
