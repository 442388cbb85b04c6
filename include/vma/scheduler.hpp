#pragma once

#include <vma/export.hpp>
#include <vma/location.hpp>
#include <vma/migration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// What the background scheduler has done since it was opened.
struct SchedulerStats {
  bool running = false;  ///< False: no policy was asked for, and all below is zero.
  bool paused = false;
  bool dry_run = false;
  std::string policy;                 ///< As it was asked for: "counter:theta=2".
  std::uint64_t policy_failures = 0;  ///< Calls that threw or overran.
  std::uint64_t ticks = 0;
  std::uint64_t ticks_late = 0;           ///< Begun more than a period behind their time.
  std::chrono::nanoseconds tick_time{0};  ///< Of all ticks together.
  DurationSummary tick;                   ///< Of all of a tick, the policy's call with it.
  std::uint64_t uses = 0;                 ///< Reported by `record_use` and looked at.
  std::uint64_t uses_sampled = 0;         ///< Left out, and stood for by others' weight.
  std::uint64_t uses_lost = 0;
  std::uint64_t uses_unknown = 0;  ///< Of memory that is not the runtime's, or was freed.
  std::uint64_t hints = 0;
  std::uint64_t moves_wanted = 0;  ///< By the policy.
  std::uint64_t moves_started = 0;
  std::uint64_t moves_done = 0;
  std::uint64_t moves_failed = 0;  ///< Of those started; the chunk stayed where it was.
  std::map<std::string, std::uint64_t> moves_refused;  ///< By the planner, with its reason.
  /// Median of how far the predicted time of a move was off, as a share of what the move took by
  /// itself. Predictions are those that decisions stand on, with what earlier moves have taught.
  double prediction_error = 0;
  std::size_t chunks = 0;
  std::size_t table_bytes = 0;  ///< Of the books, heat apart.
  std::size_t heat_bytes = 0;
};

struct DrainOptions {
  /// How long it may take before the rest stays where it is.
  std::chrono::milliseconds deadline{60'000};
};

/// How a drain ended. What is left says why.
struct DrainReport {
  std::size_t bytes_moved = 0;
  std::size_t bytes_left = 0;
  std::map<std::string, std::size_t> left;  ///< Chunks by reason.
  std::chrono::nanoseconds wall{0};
};

}  // namespace vma::inline v1
