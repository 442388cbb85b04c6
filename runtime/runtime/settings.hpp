#pragma once

#include "base/environment.hpp"
#include "migrate/copying/live_copier.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vma {

/// `RuntimeOptions` with the environment read and every default filled in.
struct Settings {
  std::string driver;
  std::vector<int> devices;
  std::map<Place, std::uint64_t> capacity_bytes;
  std::uint64_t cache_bytes_per_gpu = 0;
  std::uint64_t host_cache_bytes = 0;
  std::chrono::milliseconds hold_limit{0};
  std::chrono::microseconds gate_limit{5'000};
  std::chrono::microseconds gate_limit_max{80'000};  ///< `gate_limit` if that was set.
  int gate_retries = 8;
  std::chrono::microseconds max_stall{5'500};
  int copy_share_percent = 50;
  std::chrono::microseconds stall_budget{60'000};  ///< Per second; 0 means no limit.
  std::chrono::milliseconds stall_ahead{4'000};    ///< Of the budget; 0: nothing is spent ahead.
  bool pace_guard = true;                          ///< `PaceLimits::watches`.
  std::uint64_t copy_budget_bytes = 0;             ///< Per second; 0 means no limit.
  std::string calibration;                         ///< VMART_CALIBRATION; see `source_costs`.
  std::chrono::milliseconds pressure_limit{2'000};
  bool own_contexts = false;
  bool suspends = false;     ///< See `MigratorLimits::suspends`.
  bool copy_guards = true;   ///< See `place_copy_guards`.
  ExportTypes exportable{};  ///< Of new chunks. Tests that compose a runtime get none.
  bool prepares_gates = false;
  bool prepares_suspensions = false;
  std::string policy;                ///< Empty: no scheduler.
  std::vector<PolicyKind> policies;  ///< Known in addition to the built-in ones.
  std::string record;                ///< A folder; empty: nothing is recorded. VMART_RECORD.
  std::string decisions;             ///< A file; empty: none. VMART_DECISIONS.
  std::string control;               ///< Parsed by `control_path`. VMART_CONTROL.
  bool control_libraries = false;    ///< Its clients may load policies. VMART_CONTROL_LIBRARIES.
  std::string timeline;              ///< A file; empty: none. VMART_TIMELINE.
  std::string nvml;                  ///< A library; empty: off, "auto": theirs on GPUs. VMART_NVML.
  bool dry_run = false;
  std::chrono::nanoseconds tick = std::chrono::milliseconds(10);
  std::chrono::nanoseconds collect_every = std::chrono::milliseconds(1);
  std::chrono::nanoseconds half_life = std::chrono::seconds(1);
  /// For one call of the policy; VMART_POLICY_LIMIT_MS.
  std::chrono::nanoseconds policy_limit = std::chrono::milliseconds(500);
  bool stepped_by_hand = false;  ///< Not an option: tests step the scheduler themselves.
  LiveTuning tuning{};           ///< Not an option: benchmarks compare others.
};

/// Parses "gpu0=60GiB,gpu1=20GiB" of the variable or option `what`. Throws: Error{invalid_argument}
/// that names it, its value and the part that is wrong.
std::map<Place, std::uint64_t> parse_capacities(const std::string& text, const std::string& what);

/// Throws: Error{invalid_argument} that names the variable and its value.
Settings resolve_settings(const RuntimeOptions& options);

}  // namespace vma
