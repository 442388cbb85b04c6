#pragma once

#include <vma/migration.hpp>
#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

namespace vma {

/// What was predicted for a route: the time of a move, the stall of one chunk, or an access of a
/// GPU (`from`) to memory at a place (`to`).
enum class Foretold : std::uint8_t { move, stall, access };

/// How accurate predictions of one kind were. Errors are those of corrected predictions, each
/// corrected by what was known at that time, relative to the actual value: a bias of 0.25 means a
/// quarter too long.
struct PredictionSummary {
  std::uint64_t count = 0;
  double median_error = 0, p90_error = 0;  ///< Of absolute errors; right to about 5 %.
  double bias = 0;  ///< Mean of the errors: above 0, predictions are too long.
};

/// Predictions and actual values by route, and the corrections derived from them. Pure; one thread
/// at a time. Memory is bounded: routes beyond `routes_max` count in the totals only.
class PredictionLog {
 public:
  static constexpr std::size_t routes_max = 1024;  ///< For all kinds together, a KiB each.
  /// A factor follows the actual values slowly, so that a single outlier has little effect.
  static constexpr double weight = 1.0 / 16;
  static constexpr double factor_least = 0.5, factor_most = 2;

  PredictionLog();
  ~PredictionLog();
  PredictionLog(const PredictionLog&) = delete;
  PredictionLog& operator=(const PredictionLog&) = delete;

  /// Requires: `uncorrected` was predicted by costs without corrections, so that factors are not
  /// applied twice. Samples that took no time are ignored.
  void add(Foretold what, PlaceId from, PlaceId to, Time uncorrected, Time happened);
  /// A successful move whose bytes all were at `from`, with chunks of about one size. Others say
  /// nothing about the costs, and are ignored. The duration of a move is `move_time`.
  void add_move(const MachineCosts& uncorrected, PlaceId from, PlaceId to,
                const MigrationReport& report);

  PredictionSummary summary(Foretold what, PlaceId from, PlaceId to) const;
  PredictionSummary total(Foretold what) const;
  /// The factor for predictions of the route, 0.5 to 2; 1 for a route without samples.
  double factor(Foretold what, PlaceId from, PlaceId to) const;
  /// The costs multiplied by the factors of all routes; ranked.
  MachineCosts corrected(const MachineCosts& uncorrected) const;

 private:
  struct Route;
  using Key = std::tuple<Foretold, PlaceId, PlaceId>;
  const Route* find(Foretold what, PlaceId from, PlaceId to) const;

  std::map<Key, std::unique_ptr<Route>> routes_;
  std::map<Foretold, std::unique_ptr<Route>> totals_;
};

}  // namespace vma
