#include "scheduling/prediction_log.hpp"

#include "base/units.hpp"
#include "costs/move_costs.hpp"

#include <boost/histogram/axis/regular.hpp>
#include <boost/histogram/histogram.hpp>
#include <boost/histogram/make_histogram.hpp>
#include <boost/histogram/storage_adaptor.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace vma {
namespace {

constexpr double least_error = 1e-3, most_error = 1e2;
constexpr int error_bins = 236;  // Five decades in steps of 5 %.

}  // namespace

struct PredictionLog::Route {
  using Axis = boost::histogram::axis::regular<double, boost::histogram::axis::transform::log>;
  using Counts = boost::histogram::dense_storage<std::uint32_t>;

  boost::histogram::histogram<std::tuple<Axis>, Counts> errors =
      boost::histogram::make_histogram_with(Counts(), Axis(error_bins, least_error, most_error));
  std::uint64_t count = 0;
  double sum = 0;  // Of the signed errors.
  double factor = 1;

  void add_error(double predicted, double happened) {
    const double error = (predicted - happened) / happened;
    errors(std::abs(error));
    sum += error;
    ++count;
  }

  void learn(double uncorrected, double happened) {
    // Ratios are clamped to the bounds of a factor, or a single outlier would last long.
    const double ratio = uncorrected > 0 ? happened / uncorrected : factor_most;
    factor += weight * (std::clamp(ratio, factor_least, factor_most) - factor);
  }

  double quantile(double share) const {
    const double rank = std::max(1.0, std::ceil(share * static_cast<double>(count)));
    double below = 0;
    for (int bin = -1; bin < error_bins; ++bin) {
      below += static_cast<double>(errors.at(bin));
      if (below >= rank) return bin < 0 ? 0 : errors.axis(0).value(bin + 0.5);
    }
    return most_error;
  }

  PredictionSummary summary() const {
    if (count == 0) return {};
    return {count, quantile(0.5), quantile(0.9), sum / static_cast<double>(count)};
  }
};

PredictionLog::PredictionLog() {
  for (const Foretold what : {Foretold::move, Foretold::stall, Foretold::access}) {
    totals_[what] = std::make_unique<Route>();
  }
}
PredictionLog::~PredictionLog() = default;

void PredictionLog::add(Foretold what, PlaceId from, PlaceId to, Time uncorrected, Time happened) {
  if (happened <= Time::zero() || uncorrected < Time::zero() || uncorrected == Time::max()) return;
  // Uses the earlier factor: the prediction of this sample could not know the sample.
  const double predicted = in_seconds(uncorrected) * factor(what, from, to);
  totals_.at(what)->add_error(predicted, in_seconds(happened));
  const Key key{what, from, to};
  auto route = routes_.find(key);
  if (route == routes_.end()) {
    if (routes_.size() >= routes_max) return;
    route = routes_.emplace(key, std::make_unique<Route>()).first;
  }
  route->second->add_error(predicted, in_seconds(happened));
  route->second->learn(in_seconds(uncorrected), in_seconds(happened));
}

void PredictionLog::add_move(const MachineCosts& uncorrected, PlaceId from, PlaceId to,
                             const MigrationReport& report) {
  if (report.outcome != Outcome::done || report.chunks_moved == 0 || report.retries > 0) return;
  if (report.bytes_moved != report.bytes_asked) return;
  const auto chunks = static_cast<std::uint64_t>(report.chunks_moved);
  const std::uint64_t chunk_bytes = report.bytes_moved / chunks;
  if (chunks == 1) {  // With several chunks, switches and copies overlap.
    add(Foretold::move, from, to, uncorrected.move_time(from, to, chunk_bytes), move_time(report));
  }
  // A hold stops once for all chunks; only gates stop once a chunk.
  if (report.stall.count == chunks) {
    add(Foretold::stall, from, to, uncorrected.stall_time(from, to, chunk_bytes),
        report.stall.median);
  }
}

const PredictionLog::Route* PredictionLog::find(Foretold what, PlaceId from, PlaceId to) const {
  const auto found = routes_.find({what, from, to});
  return found == routes_.end() ? nullptr : found->second.get();
}

PredictionSummary PredictionLog::summary(Foretold what, PlaceId from, PlaceId to) const {
  const Route* route = find(what, from, to);
  return route == nullptr ? PredictionSummary() : route->summary();
}

PredictionSummary PredictionLog::total(Foretold what) const {
  return totals_.at(what)->summary();
}

double PredictionLog::factor(Foretold what, PlaceId from, PlaceId to) const {
  const Route* route = find(what, from, to);
  return route == nullptr ? 1 : route->factor;
}

MachineCosts PredictionLog::corrected(const MachineCosts& uncorrected) const {
  MachineCosts costs = uncorrected;
  const auto times = [](Time time, double by) {
    return Time(static_cast<Time::rep>(static_cast<double>(time.count()) * by));
  };
  for (const auto& [key, route] : routes_) {
    const auto& [what, from, to] = key;
    if (index(from) >= costs.places() || index(to) >= costs.places()) continue;
    const double by = route->factor;
    switch (what) {
      case Foretold::move:
        costs.move_fixed(from, to) = times(costs.move_fixed(from, to), by);
        costs.move_per_byte(from, to) *= by;
        costs.copy_rate(from, to) /= by;
        break;
      case Foretold::stall:
        costs.stall_fixed(from, to) = times(costs.stall_fixed(from, to), by);
        costs.stall_per_byte(from, to) *= by;
        break;
      case Foretold::access:
        costs.access_latency(from, to) = times(costs.access_latency(from, to), by);
        costs.access_rate(from, to) /= by;
        break;
    }
  }
  costs.rank();
  return costs;
}

}  // namespace vma
