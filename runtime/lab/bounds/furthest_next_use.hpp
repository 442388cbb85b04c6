#pragma once

#include "lab/bounds/epoch_grid.hpp"
#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/placement_plan.hpp"
#include "lab/bounds/room_by_epoch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace vma {

/// A demand-driven plan: chunks used in an epoch move to their cheapest place. If there is no room,
/// the chunks with the furthest next use leave for the place that is cheapest to reach (Belady's
/// rule, which ignores costs). Its `seconds` are infinite if some chunk finds no place.
class FurthestNextUse {
 public:
  FurthestNextUse(const PlacementInstance& instance, const EpochGrid& grid);

  PlacementPlan run();

 private:
  static constexpr std::uint32_t never_used = UINT32_MAX;

  void begin_epoch(std::size_t epoch);
  /// Consumes the chunk's uses in the epoch, and writes their costs at each place to `costs_`.
  void take_uses(std::size_t chunk, std::size_t epoch);
  std::uint32_t next_use(std::size_t chunk) const;
  void bring(std::size_t chunk, std::size_t epoch);
  bool make_room(std::size_t place, std::size_t epoch, std::uint64_t bytes);
  void settle(std::size_t chunk, std::size_t place, std::size_t epoch);
  void leave(std::size_t chunk, std::size_t epoch);
  std::uint8_t& place_of(std::size_t chunk, std::size_t epoch) {
    return plan_.places(chunk)[epoch - plan_.first(chunk)];
  }

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  const std::size_t places_;
  PlacementPlan plan_;
  RoomByEpoch room_;
  std::vector<std::size_t> next_;  // Per chunk: its first use that is not consumed.
  std::vector<std::size_t> live_;
  std::vector<std::vector<std::size_t>> born_, used_;  // Per epoch.
  /// Per place: the chunks that may leave, ordered by next use.
  std::vector<std::set<std::pair<std::uint32_t, std::size_t>>> victims_;
  std::vector<bool> placed_;  // Per chunk: it has a place in this epoch or had one in the last.
  std::vector<double> costs_;
};

}  // namespace vma
