#pragma once

#include <vma/export.hpp>
#include <vma/place.hpp>
#include <vma/migration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// Counters of the background scheduler since it was opened.
struct SchedulerStats {
  bool running = false;  ///< False if no policy is configured; then all other values are zero.
  bool paused = false;
  bool dry_run = false;
  std::string policy;                 ///< As configured: "counter:theta=2".
  std::uint64_t policy_failures = 0;  ///< Calls that threw or took too long.
  std::uint64_t ticks = 0;
  std::uint64_t ticks_late = 0;           ///< Ticks that started more than one period late.
  std::chrono::nanoseconds tick_time{0};  ///< All ticks together.
  DurationSummary tick;                   ///< Whole ticks, including the policy's calls.
  std::uint64_t uses = 0;                 ///< Uses reported by `record_use` and processed.
  /// Uses skipped by sampling; others are weighted to represent them.
  std::uint64_t uses_sampled = 0;
  std::uint64_t uses_lost = 0;
  std::uint64_t uses_unknown = 0;  ///< Uses of memory that is not the runtime's or was freed.
  std::uint64_t hints = 0;
  std::uint64_t moves_wanted = 0;  ///< Proposed by the policy.
  std::uint64_t moves_started = 0;
  std::uint64_t moves_done = 0;
  std::uint64_t moves_failed = 0;  ///< Started, but the chunk stayed where it was.
  /// Why no moves begin now: they are tested, or do not pay. Empty if they may begin.
  std::string moves_held;
  std::map<std::string, std::uint64_t> moves_refused;  ///< Refused by the planner, by reason.
  /// Median error of the predicted move times, as a fraction of the time that the move itself took.
  /// Predictions are those used for decisions, including corrections learned from earlier moves.
  double prediction_error = 0;
  std::size_t chunks = 0;
  std::size_t table_bytes = 0;  ///< Size of the chunk tables without heat.
  std::size_t heat_bytes = 0;
  std::uint64_t events_lost = 0;  ///< Events dropped from the control socket's ring.
  std::uint64_t trace_lost = 0;   ///< Trace entries that were not written.
};

struct DrainOptions {
  /// After this time, everything that has not moved stays where it is.
  std::chrono::milliseconds deadline{60'000};
};

/// Result of a drain, with the reasons for what is left.
struct DrainReport {
  std::size_t bytes_moved = 0;
  std::size_t bytes_left = 0;
  std::map<std::string, std::size_t> left;  ///< Number of chunks by reason.
  std::chrono::nanoseconds wall{0};
};

}  // namespace vma::inline v1
