#include "migrate/stops/stop_stats.hpp"

#include "base/mutex.hpp"

#include <boost/histogram/axis/regular.hpp>
#include <boost/histogram/histogram.hpp>
#include <boost/histogram/make_histogram.hpp>
#include <boost/histogram/storage_adaptor.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace vma {
namespace {

using std::chrono::nanoseconds;

constexpr double shortest_ns = 1e3, longest_ns = 1e10;
constexpr int duration_bins = 330;  // Seven decades in steps of 5 %.

/// Durations in bins that grow with the duration; outliers are counted in the first and last bin.
class Durations {
 public:
  void add(nanoseconds duration) {
    histogram_(static_cast<double>(duration.count()));
    ++count_;
    max_ = std::max(max_, duration);
  }

  DurationSummary summary() const { return {count_, quantile(0.5), quantile(0.99), max_}; }

 private:
  /// The middle of the bin that contains it, capped at the maximum.
  nanoseconds quantile(double share) const {
    if (count_ == 0) return nanoseconds(0);
    const auto rank = std::max(1.0, std::ceil(share * static_cast<double>(count_)));
    double below = 0;
    for (int bin = -1; bin < duration_bins; ++bin) {
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
      boost::histogram::make_histogram_with(Counts(), Axis(duration_bins, shortest_ns, longest_ns));
  std::uint64_t count_ = 0;
  nanoseconds max_{0};
};

}  // namespace

inline namespace v1 {

std::string_view to_string(StopKind kind) noexcept {
  switch (kind) {
    case StopKind::none: return "none";
    case StopKind::gate: return "gate";
    case StopKind::hold: return "hold";
    case StopKind::suspension: return "suspension";
  }
  return "unknown";
}

}  // namespace v1

std::string_view to_string(StopRefusal::Why refusal) noexcept {
  switch (refusal) {
    case StopRefusal::none: return "none";
    case StopRefusal::capture: return "capture";
    case StopRefusal::predicted_skew: return "predicted_skew";
    case StopRefusal::not_arrived: return "not_arrived";
    case StopRefusal::settle_late: return "settle_late";
    case StopRefusal::opened_by_watchdog: return "opened_by_watchdog";
    case StopRefusal::stream_lost: return "stream_lost";
    case StopRefusal::streams_changed: return "streams_changed";
    case StopRefusal::memory_busy: return "memory_busy";
    case StopRefusal::copies_busy: return "copies_busy";
    case StopRefusal::suspension_refused: return "suspension_refused";
  }
  return "unknown";
}

std::string_view advice(StopRefusal::Why refusal, bool stopped) noexcept {
  switch (refusal) {
    case StopRefusal::none: return "";
    case StopRefusal::capture:
      return "Gates cannot close while an attached stream captures: end the capture first, or give "
             "the move a longer MigrateOptions::deadline";
    case StopRefusal::predicted_skew:
      return "Launch less work ahead, or the same amount on each stream; or allow longer stops: "
             "RuntimeOptions::gate_limit (VMART_GATE_LIMIT_US) above 80 ms, StopScope::hold";
    case StopRefusal::not_arrived:
      return stopped
                 ? "Streams that wait for each other, as in a collective, cannot be stopped one by "
                   "one. Move between such steps, allow longer stops (RuntimeOptions::gate_limit, "
                   "VMART_GATE_LIMIT_US, above 80 ms), or ask for StopScope::hold"
                 : "Let work that never ends end before the move, or detach its stream; for a "
                   "longer backlog set MigrateOptions::deadline, launch less work ahead, or "
                   "synchronize before the move";
    case StopRefusal::settle_late:
      return "Use smaller chunks (AllocOptions::chunk_bytes), or write less to the memory during "
             "the move; or allow longer stops: RuntimeOptions::gate_limit (VMART_GATE_LIMIT_US) "
             "above 80 ms";
    case StopRefusal::opened_by_watchdog:
      return "Another thread that frees device memory, unloads a module or destroys a context "
             "delays driver calls: do that before or after the move, or attach streams without "
             "graphs as StreamWork::no_graphs";
    case StopRefusal::stream_lost: return "Detach streams before they are destroyed";
    case StopRefusal::streams_changed:
      return "Attach and detach streams before or after the move, or give it a longer "
             "MigrateOptions::deadline";
    case StopRefusal::memory_busy:
      return "Allocate and free less during the move, or give it a longer MigrateOptions::deadline";
    case StopRefusal::copies_busy:
      return "End each vma::CopyScope right after its copies; let synchronous copies take less "
             "time "
             "than the pauses between them, or give the move a longer MigrateOptions::deadline";
    case StopRefusal::suspension_refused:
      return "Attach the streams that use the memory, so that moves can stop those instead; 'vmart "
             "doctor' shows whether work can be suspended here";
  }
  return "";
}

struct StopStats::Counts {
  struct Values {
    Durations skew, stall;
    // Not a map: counting allocates nothing.
    std::array<std::uint64_t, static_cast<std::size_t>(StopRefusal::suspension_refused) + 1>
        refusals{};
  };

  mutable Mutex mutex;
  Values values VMART_GUARDED_BY(mutex);
};

StopStats::StopStats() : counts_(std::make_unique<Counts>()) {}
StopStats::~StopStats() = default;

void StopStats::add_skew(nanoseconds skew) noexcept {
  const MutexLock lock(counts_->mutex);
  counts_->values.skew.add(skew);
}

void StopStats::add_stall(nanoseconds stall) noexcept {
  const MutexLock lock(counts_->mutex);
  counts_->values.stall.add(stall);
}

void StopStats::add_refusal(StopRefusal::Why refusal) noexcept {
  if (refusal == StopRefusal::none) return;
  const MutexLock lock(counts_->mutex);
  ++counts_->values.refusals[static_cast<std::size_t>(refusal)];
}

DurationSummary StopStats::skew() const {
  const MutexLock lock(counts_->mutex);
  return counts_->values.skew.summary();
}

DurationSummary StopStats::stall() const {
  const MutexLock lock(counts_->mutex);
  return counts_->values.stall.summary();
}

std::map<StopRefusal::Why, std::uint64_t> StopStats::refusals() const {
  const MutexLock lock(counts_->mutex);
  std::map<StopRefusal::Why, std::uint64_t> refusals;
  for (std::size_t i = 0; i < counts_->values.refusals.size(); ++i) {
    const std::uint64_t count = counts_->values.refusals[i];
    if (count > 0) refusals[static_cast<StopRefusal::Why>(i)] = count;
  }
  return refusals;
}

}  // namespace vma
