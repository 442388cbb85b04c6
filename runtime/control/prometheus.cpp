#include "control/prometheus.hpp"

#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

namespace vma {
namespace {

std::string escaped_label(std::string_view value) {
  std::string escaped;
  for (const char character : value) {
    if (character == '\\' || character == '"') escaped += '\\';
    if (character == '\n') {
      escaped += "\\n";
    } else {
      escaped += character;
    }
  }
  return escaped;
}

/// Builds the text, one metric family after the other.
class Page {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP vmart_{} {}\n# TYPE vmart_{} {}\n", name,
                   help, name, type);
  }
  void sample(double value) { line("", "", value); }
  void sample(std::string_view label, std::string_view of, double value) {
    line("", fmt::format("{{{}=\"{}\"}}", label, escaped_label(of)), value);
  }
  void suffixed(std::string_view suffix, double value) { line(suffix, "", value); }

  void counter(std::string_view name, std::string_view help, double value) {
    family(name, "counter", help);
    sample(value);
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    family(name, "gauge", help);
    sample(value);
  }
  std::string take() && { return std::move(text_); }

 private:
  void line(std::string_view suffix, std::string_view labels, double value) {
    // Prints integers without an exponent; the shortest form of a double may be 1e+06.
    constexpr double whole_max = 9007199254740992.0;
    const bool whole = std::floor(value) == value && std::abs(value) <= whole_max;
    const std::string number = whole               ? fmt::format("{:.0f}", value)
                               : std::isnan(value) ? std::string("NaN")
                               : std::isinf(value) ? std::string(value > 0 ? "+Inf" : "-Inf")
                                                   : fmt::format("{}", value);
    fmt::format_to(std::back_inserter(text_), "vmart_{}{}{} {}\n", name_, suffix, labels, number);
  }
  std::string text_, name_;
};

template <typename Count>
void by_reason(Page& page, const std::map<std::string, Count>& counts) {
  for (const auto& [reason, count] : counts) {
    page.sample("reason", reason, static_cast<double>(count));
  }
}

/// A summary without `_sum`, which the underlying histograms do not keep.
void durations(Page& page, std::string_view name, std::string_view help,
               const DurationSummary& summary) {
  page.family(name, "summary", help);
  page.sample("quantile", "0.5", in_seconds(summary.median));
  page.sample("quantile", "0.99", in_seconds(summary.p99));
  page.sample("quantile", "1", in_seconds(summary.max));
  page.suffixed("_count", static_cast<double>(summary.count));
}

void places(Page& page, const RuntimeStats& stats) {
  struct Column {
    std::string_view name, help;
    std::size_t RuntimeStats::Place::*member;
  };
  constexpr Column columns[] = {
      {"capacity_bytes",
       "Memory the runtime may use at this location: the configured capacity, or all memory. "
       "Omitted if unknown.",
       &RuntimeStats::Place::capacity_bytes},
      {"allocated_bytes", "Memory behind users' pointers, in whole chunks.",
       &RuntimeStats::Place::allocated_bytes},
      {"cached_bytes", "Released chunks kept for reuse.", &RuntimeStats::Place::cached_bytes},
      {"copies_bytes", "Clean copies, released when the memory is needed.",
       &RuntimeStats::Place::copies_bytes},
      {"own_bytes", "Memory that the runtime uses for itself.", &RuntimeStats::Place::own_bytes},
      {"leaked_bytes", "Memory that the driver failed to release.",
       &RuntimeStats::Place::leaked_bytes},
  };
  for (const Column& column : columns) {
    page.family(column.name, "gauge", column.help);
    for (const RuntimeStats::Place& place : stats.places) {
      if (column.member == &RuntimeStats::Place::capacity_bytes && place.capacity_bytes == 0)
        continue;
      page.sample("location", to_string(place.at), static_cast<double>(place.*column.member));
    }
  }
}

/// One family for a kind of value, if any GPU has it.
template <typename Value>
void load(Page& page, std::string_view name, std::string_view help, const GpuLoads& loads,
          std::optional<Value> GpuLoad::*member) {
  const auto has = [&](const GpuLoad& load) { return (load.*member).has_value(); };
  if (std::ranges::none_of(loads.gpus, has)) return;
  page.family(name, "gauge", help);
  for (const GpuLoad& load : loads.gpus) {
    if (has(load))
      page.sample("location", to_string(load.at), static_cast<double>(*(load.*member)));
  }
}

void loads(Page& page, const GpuLoads& loads) {
  page.gauge("nvml_on", "1 if NVML provides the following values.",
             loads.state == GpuLoads::State::on ? 1 : 0);
  if (loads.age.count() >= 0) {
    page.gauge("nvml_sample_age_seconds", "Time since the last NVML sample.",
               in_seconds(loads.age));
  }
  load(page, "gpu_kernels_ratio", "Fraction of time with a running kernel.", loads,
       &GpuLoad::kernels);
  load(page, "gpu_memory_ratio", "Fraction of time with memory accesses.", loads, &GpuLoad::memory);
  load(page, "gpu_memory_used_bytes", "Of all processes.", loads, &GpuLoad::memory_used_bytes);
  load(page, "gpu_memory_total_bytes", "That NVML counts.", loads, &GpuLoad::memory_total_bytes);
  load(page, "gpu_nvlink_sent_bytes_per_second", "All links.", loads, &GpuLoad::nvlink_sent);
  load(page, "gpu_nvlink_received_bytes_per_second", "All links.", loads,
       &GpuLoad::nvlink_received);
  load(page, "gpu_pcie_sent_bytes_per_second", "By the GPU.", loads, &GpuLoad::pcie_sent);
  load(page, "gpu_pcie_received_bytes_per_second", "By the GPU.", loads, &GpuLoad::pcie_received);
}

void runtime_figures(Page& page, const RuntimeStats& stats) {
  places(page, stats);
  loads(page, stats.loads);
  const auto value = [](std::size_t count) { return static_cast<double>(count); };
  page.gauge("allocations", "That live.", value(stats.allocations));
  page.gauge("allocations_poisoned", "Allocations with a permanently unmapped slot.",
             value(stats.poisoned));
  page.gauge("allocations_parked", "Allocations with chunks parked outside HBM.",
             value(stats.parked));
  page.gauge("dropped_bytes", "Parked bytes without memory.", value(stats.dropped_bytes));
  page.counter("leaked_total", "Driver objects whose release failed.", value(stats.leaked));
  page.counter("migrations_total", "Migrations that ended.", value(stats.migrations));
  page.counter("moved_bytes_total", "That changed place.", value(stats.bytes_moved));
  page.counter("copied_twice_bytes_total", "Bytes written during their copy, and copied again.",
               value(stats.bytes_copied_twice));
  page.counter("copies_kept_total", "Moves that left a clean copy behind.",
               value(stats.copies_kept));
  page.counter("copies_used_total", "Clean copies to which a chunk returned.",
               value(stats.copies_used));
  page.counter("copies_dropped_total",
               "Clean copies dropped to make room or because they became stale.",
               value(stats.copies_dropped));
  page.counter("remapped_bytes_total", "Bytes moved without a copy.", value(stats.bytes_remapped));
  page.counter("gates_total", "Gates at which all streams arrived.", value(stats.gates));
  page.counter("gates_given_up_total", "Gates opened before the chunk was switched.",
               value(stats.gates_given_up));
  page.family("gates_given_up_by_reason_total", "counter", "Gates given up, by reason.");
  by_reason(page, stats.reasons);
  page.counter("callbacks_failed_total", "Callbacks and hooks that threw.",
               value(stats.callbacks_failed));
  durations(page, "gate_skew_seconds", "From a gate's first arrival to its last.", stats.skew);
  durations(page, "stall_seconds", "From the last arrival until work continues.", stats.stall);
}

void scheduler_figures(Page& page, const SchedulerCounters& counters) {
  const auto value = [](std::uint64_t count) { return static_cast<double>(count); };
  page.counter("scheduler_ticks_total", "Ticks.", value(counters.ticks));
  page.counter("scheduler_ticks_late_total", "Ticks that started more than a period late.",
               value(counters.ticks_late));
  page.counter("scheduler_tick_seconds_total", "Spent in ticks.", in_seconds(counters.tick_time));
  page.gauge("scheduler_chunks", "Chunks in the scheduler's tables.", value(counters.chunks));
  page.counter("scheduler_moves_planned_total", "Moves that policies proposed.",
               value(counters.moves_planned));
  page.counter("scheduler_moves_done_total", "Moves made.", value(counters.moves_done));
  page.counter("scheduler_moves_failed_total", "Moves that failed.", value(counters.moves_failed));
  page.family("scheduler_moves_rejected_total", "counter", "Moves that the planner rejected.");
  by_reason(page, counters.moves_rejected);
  page.counter("scheduler_policy_failures_total",
               "Plans dropped because the policy threw or took too long.",
               value(counters.policy_failures));
  page.counter("uses_total", "Uses that programs recorded.", value(counters.uses));
  page.counter("uses_lost_total", "Uses lost because the buffers were full.",
               value(counters.uses_lost));
  page.counter("hints_total", "Hints from programs.", value(counters.hints));
  page.counter("events_lost_total", "Events dropped from the event ring.",
               value(counters.events_lost));
  page.counter("trace_lost_total", "Trace entries that were not written.",
               value(counters.trace_lost));
  page.gauge("prediction_error_ratio", "Median error of the predicted time of moves.",
             counters.prediction_error);
}

}  // namespace

std::string prometheus_text(const ControlStats& stats) {
  Page page;
  runtime_figures(page, stats.runtime);
  scheduler_figures(page, stats.scheduler);
  return std::move(page).take();
}

}  // namespace vma
