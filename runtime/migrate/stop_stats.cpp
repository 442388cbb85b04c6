#include "migrate/stop_stats.hpp"

#include "base/mutex.hpp"

#include <boost/histogram/axis/regular.hpp>
#include <boost/histogram/histogram.hpp>
#include <boost/histogram/make_histogram.hpp>
#include <boost/histogram/storage_adaptor.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::nanoseconds;

constexpr double shortest_ns = 1e3, longest_ns = 1e10;
constexpr int bins = 330;  // Seven decades in steps of 5 %.

/// Durations in bins that grow with the duration; those outside are counted at both ends.
class Durations {
 public:
  void add(nanoseconds duration) {
    histogram_(static_cast<double>(duration.count()));
    ++count_;
    max_ = std::max(max_, duration);
  }

  void merge(const Durations& other) {
    histogram_ += other.histogram_;
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }

  DurationSummary summary() const { return {count_, quantile(0.5), quantile(0.99), max_}; }

 private:
  /// The middle of the bin that holds it, and no more than the maximum.
  nanoseconds quantile(double share) const {
    if (count_ == 0) return nanoseconds(0);
    const auto rank = std::max(1.0, std::ceil(share * static_cast<double>(count_)));
    double below = 0;
    for (int bin = -1; bin < bins; ++bin) {
      below += static_cast<double>(histogram_.at(bin));
      if (below >= rank) return std::min(max_, middle(bin));
    }
    return max_;
  }

  nanoseconds middle(int bin) const {
    const auto& axis = histogram_.axis(0);
    const double ns = bin < 0 ? shortest_ns : axis.value(bin + 0.5);
    return nanoseconds(static_cast<nanoseconds::rep>(ns));
  }

  using Axis = boost::histogram::axis::regular<double, boost::histogram::axis::transform::log>;
  using Counts = boost::histogram::dense_storage<std::uint64_t>;

  boost::histogram::histogram<std::tuple<Axis>, Counts> histogram_ =
      boost::histogram::make_histogram_with(Counts(), Axis(bins, shortest_ns, longest_ns));
  std::uint64_t count_ = 0;
  nanoseconds max_{0};
};

}  // namespace

std::string_view to_string(StopRefusal refusal) noexcept {
  switch (refusal) {
    case StopRefusal::none: return "none";
    case StopRefusal::capture: return "capture";
    case StopRefusal::predicted_skew: return "predicted_skew";
    case StopRefusal::not_arrived: return "not_arrived";
    case StopRefusal::settle_late: return "settle_late";
    case StopRefusal::opened_by_watchdog: return "opened_by_watchdog";
    case StopRefusal::stream_lost: return "stream_lost";
    case StopRefusal::streams_changed: return "streams_changed";
    case StopRefusal::too_many_streams: return "too_many_streams";
    case StopRefusal::budget: return "budget";
  }
  return "unknown";
}

struct StopStats::Counts {
  struct Values {
    Durations skew, stall;
    std::map<StopRefusal, std::uint64_t> refusals;
  };

  Values copy() const {
    const MutexLock lock(mutex);
    return values;
  }

  mutable Mutex mutex;
  Values values VMART_GUARDED_BY(mutex);
};

StopStats::StopStats() : counts_(std::make_unique<Counts>()) {}
StopStats::~StopStats() = default;

void StopStats::add_skew(nanoseconds skew) {
  const MutexLock lock(counts_->mutex);
  counts_->values.skew.add(skew);
}

void StopStats::add_stall(nanoseconds stall) {
  const MutexLock lock(counts_->mutex);
  counts_->values.stall.add(stall);
}

void StopStats::add_refusal(StopRefusal refusal) {
  if (refusal == StopRefusal::none) return;
  const MutexLock lock(counts_->mutex);
  ++counts_->values.refusals[refusal];
}

void StopStats::merge(const StopStats& other) {
  // A copy, so that no thread holds two of these locks, in whatever order.
  const Counts::Values added = other.counts_->copy();
  const MutexLock lock(counts_->mutex);
  counts_->values.skew.merge(added.skew);
  counts_->values.stall.merge(added.stall);
  for (const auto& [refusal, count] : added.refusals) counts_->values.refusals[refusal] += count;
}

DurationSummary StopStats::skew() const {
  const MutexLock lock(counts_->mutex);
  return counts_->values.skew.summary();
}

DurationSummary StopStats::stall() const {
  const MutexLock lock(counts_->mutex);
  return counts_->values.stall.summary();
}

std::map<StopRefusal, std::uint64_t> StopStats::refusals() const {
  const MutexLock lock(counts_->mutex);
  return counts_->values.refusals;
}

}  // namespace vma
