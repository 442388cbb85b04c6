#pragma once

#include <vma/migration.hpp>
#include <vma/snapshot.hpp>

#include <cstddef>

namespace vma {

/// The duration of a migration itself, which `MachineCosts::move_time` predicts for one chunk:
/// target, copy, settling, switch, retiring. Excludes the time until the application's streams were
/// stopped and the time until a budget allowed the stop, because the application runs meanwhile.
/// Calibration and `PredictionLog` both use it.
///
/// With several chunks, phases overlap, because one chunk is copied while another waits. The result
/// is then at most the wall time without the waits.
Time move_time(const MigrationReport& report);

/// A straight line through two points: the cost of a chunk of any size.
struct LinearCost {
  Time fixed{0};
  double per_byte = 0;  ///< Seconds.

  /// Neither part is negative. `least_per_byte` is a lower bound of the slope, for a part of it
  /// that is known from elsewhere. Requires: `small_bytes` < `large_bytes`.
  static LinearCost through(double small_bytes, Time small, double large_bytes, Time large,
                            double least_per_byte = 0);
};

/// What moves of one size took: by themselves, which includes the copy, and work that stopped
/// still.
struct MeasuredMove {
  std::size_t bytes = 0;
  Time move{0}, stall{0};
};

/// Sets the costs of moves from one place to another by measurements of two sizes;
/// `settle_per_byte` is what a stall takes in addition. Requires: the rate of the copy is known.
void set_move_costs(MachineCosts& costs, PlaceId from, PlaceId to, const MeasuredMove& small,
                    const MeasuredMove& large, double settle_per_byte = 0);

}  // namespace vma
