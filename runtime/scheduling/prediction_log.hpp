#pragma once

#include <vma/migration.hpp>
#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

namespace vma {

/// What was foretold of a route: the time of a move, the stall of one chunk, or an access of a GPU
/// (`from`) to what lies at a place (`to`).
enum class Foretold : std::uint8_t { move, stall, access };

/// How predictions of one kind went. Errors are those of corrected predictions, each by what was
/// known before it was put to the test, relative to what happened: 0.25 is a quarter too long where
/// the bias is meant.
struct PredictionSummary {
  std::uint64_t count = 0;
  double median_error = 0, p90_error = 0;  ///< Of absolute errors; right to about 5 %.
  double bias = 0;  ///< Mean of the errors: above 0, predictions are too long.
};

/// Predictions beside what happened, by route, and what follows for the next ones. Pure; one thread
/// at a time. Memory is bounded: routes beyond `routes_max` count in the totals only.
class PredictionLog {
 public:
  static constexpr std::size_t routes_max = 1024;  ///< Of all kinds, a KiB each.
  /// A factor follows what happens so slowly that one odd move does little.
  static constexpr double weight = 1.0 / 16;
  static constexpr double factor_least = 0.5, factor_most = 2;

  PredictionLog();
  ~PredictionLog();
  PredictionLog(const PredictionLog&) = delete;
  PredictionLog& operator=(const PredictionLog&) = delete;

  /// Requires: `uncorrected` was predicted by costs without corrections, so that factors do not
  /// follow themselves. What took no time at all is left out.
  void add(Foretold what, PlaceId from, PlaceId to, Time uncorrected, Time happened);
  /// A move that ended well and whose bytes all lay at `from`; its chunks of about one size. Others
  /// say nothing of the costs, and are left out. What a move took is `move_time`.
  void add_move(const MachineCosts& uncorrected, PlaceId from, PlaceId to,
                const MigrationReport& report);

  PredictionSummary summary(Foretold what, PlaceId from, PlaceId to) const;
  PredictionSummary total(Foretold what) const;
  /// By what predictions of the route are to be multiplied, 0.5 to 2; 1 of a route without any.
  double factor(Foretold what, PlaceId from, PlaceId to) const;
  /// The costs with the factors of all routes in them; ranked.
  MachineCosts corrected(const MachineCosts& uncorrected) const;

 private:
  struct Route;
  using Key = std::tuple<Foretold, PlaceId, PlaceId>;
  const Route* find(Foretold what, PlaceId from, PlaceId to) const;

  std::map<Key, std::unique_ptr<Route>> routes_;
  std::map<Foretold, std::unique_ptr<Route>> totals_;
};

}  // namespace vma
