#include "costs/move_costs.hpp"

#include <algorithm>
#include <chrono>

namespace vma {
namespace {

Time time_of(double seconds) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
}

}  // namespace

Time move_time(const MigrationReport& report) {
  const Phases& phases = report.phases;
  const Time busy = phases.cache + phases.copy + phases.settle + phases.unmap + phases.map +
                    phases.grant + phases.retire;
  return std::min(busy, std::max(Time::zero(), report.wall - phases.wait));
}

LinearCost LinearCost::through(double small_bytes, Time small, double large_bytes, Time large,
                               double least_per_byte) {
  const double slope =
      std::chrono::duration<double>(large - small).count() / (large_bytes - small_bytes);
  LinearCost cost;
  cost.per_byte = std::max(slope, least_per_byte);
  cost.fixed = std::max(Time::zero(), small - time_of(cost.per_byte * small_bytes));
  return cost;
}

void set_move_costs(MachineCosts& costs, PlaceId from, PlaceId to, const MeasuredMove& small,
                    const MeasuredMove& large, double settle_per_byte) {
  const auto few = static_cast<double>(small.bytes), many = static_cast<double>(large.bytes);
  const double copy = 1 / costs.copy_rate(from, to);
  const LinearCost move = LinearCost::through(few, small.move, many, large.move, copy);
  const LinearCost stall = LinearCost::through(few, small.stall, many, large.stall);
  costs.move_fixed(from, to) = move.fixed;
  costs.move_per_byte(from, to) = move.per_byte - copy;
  costs.stall_fixed(from, to) = stall.fixed;
  costs.stall_per_byte(from, to) = stall.per_byte + settle_per_byte;
}

}  // namespace vma
