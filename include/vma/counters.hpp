#pragma once

#include <vma/telemetry.hpp>
#include <vma/scheduler.hpp>
#include <vma/stats.hpp>

#include <tuple>

namespace vma::inline v1 {

/// A counter only grows; a gauge is a value of now.
enum class CounterKind { counter, gauge };

enum class CounterUnit { none, bytes, bytes_per_second, ratio, seconds };

/// One member of a struct of statistics. Its name is that of the member in C++ and in Python, and
/// of the value in JSON and in `vmart stats`. Prometheus's text puts `vmart_` before it, and
/// `_seconds`, `_ratio` and `_total` behind it.
template <typename Stats, typename Value>
struct Counter {
  const char* name;
  Value Stats::*member;
  CounterKind kind;
  CounterUnit unit;
  const char* help;
};

/// The table of all counters of a struct: `Counters<RuntimeStats>::rows`.
template <typename Stats>
struct Counters;

/// Calls `visit` with each `Counter` of the struct, in the order of the table.
template <typename Stats, typename Visit>
void for_each_counter(Visit&& visit) {
  std::apply([&](const auto&... row) { (visit(row), ...); }, Counters<Stats>::rows);
}

template <typename Stats, typename Value>
constexpr Counter<Stats, Value> counter(const char* name, Value Stats::*member, const char* help,
                                        CounterUnit unit = CounterUnit::none) {
  return {name, member, CounterKind::counter, unit, help};
}
template <typename Stats, typename Value>
constexpr Counter<Stats, Value> gauge(const char* name, Value Stats::*member, const char* help,
                                      CounterUnit unit = CounterUnit::none) {
  return {name, member, CounterKind::gauge, unit, help};
}

/// Of each place.
template <>
struct Counters<RuntimeStats::PlaceStats> {
  using PlaceStats = RuntimeStats::PlaceStats;
  static constexpr std::tuple rows{
      gauge("capacity_bytes", &PlaceStats::capacity_bytes,
            "Memory that the runtime may use: the configured capacity, or all; 0 if unknown.",
            CounterUnit::bytes),
      gauge("allocated_bytes", &PlaceStats::allocated_bytes,
            "Memory behind users' pointers, in whole chunks.", CounterUnit::bytes),
      gauge("cached_bytes", &PlaceStats::cached_bytes, "Freed chunks kept for reuse.",
            CounterUnit::bytes),
      gauge("copies_bytes", &PlaceStats::copies_bytes,
            "Clean copies, released when the memory is needed.", CounterUnit::bytes),
      gauge("own_bytes", &PlaceStats::own_bytes, "Memory that the runtime uses for itself.",
            CounterUnit::bytes),
      gauge("context_bytes", &PlaceStats::context_bytes,
            "The driver's memory for the runtime's own context, beside the capacity.",
            CounterUnit::bytes),
      gauge("leaked_bytes", &PlaceStats::leaked_bytes,
            "Memory that the driver refused to release, or may still write to.",
            CounterUnit::bytes),
  };
};

template <>
struct Counters<RuntimeStats> {
  using Stats = RuntimeStats;
  static constexpr std::tuple rows{
      gauge("allocations", &Stats::allocations, "Allocations that live."),
      gauge("poisoned", &Stats::poisoned, "Allocations that lost a slot to a failed move."),
      gauge("parked", &Stats::parked, "Allocations with chunks that were parked outside of HBM."),
      gauge("dropped_bytes", &Stats::dropped_bytes,
            "Parked bytes without memory until they are resumed.", CounterUnit::bytes),
      counter("leaked", &Stats::leaked, "Driver objects whose release failed."),
      counter("migrations", &Stats::migrations, "Migrations that ended."),
      counter("bytes_moved", &Stats::bytes_moved, "Bytes that changed place.", CounterUnit::bytes),
      counter("bytes_copied_twice", &Stats::bytes_copied_twice,
              "Bytes written during their copy, and copied again.", CounterUnit::bytes),
      counter("bytes_remapped", &Stats::bytes_remapped,
              "Part of `bytes_moved` that a clean copy held, so was not copied.",
              CounterUnit::bytes),
      counter("copies_kept", &Stats::copies_kept, "Moves that left a clean copy behind."),
      counter("copies_used", &Stats::copies_used, "Clean copies to which a chunk returned."),
      counter("copies_dropped", &Stats::copies_dropped,
              "Clean copies dropped to make room or because they became stale."),
      counter("gates", &Stats::gates, "Gates at which all streams arrived."),
      counter("gates_given_up", &Stats::gates_given_up,
              "Gates opened before the chunk was switched."),
      counter("gates_given_up_by_reason", &Stats::gates_given_up_by_reason, "The same, by reason."),
      counter("callbacks_failed", &Stats::callbacks_failed,
              "Callbacks and hooks that threw an exception."),
      gauge("skew", &Stats::skew, "From a gate's first arrival to its last.", CounterUnit::seconds),
      gauge("stall", &Stats::stall, "From a gate's last arrival until work continues.",
            CounterUnit::seconds),
      gauge("stall_held", &Stats::stall_held, "From a hold's first stop until work continues.",
            CounterUnit::seconds),
      gauge("stall_suspended", &Stats::stall_suspended,
            "From the beginning of a suspension until work continues.", CounterUnit::seconds),
  };
};

template <>
struct Counters<SchedulerStats> {
  using Stats = SchedulerStats;
  static constexpr std::tuple rows{
      counter("ticks", &Stats::ticks, "Ticks."),
      counter("ticks_late", &Stats::ticks_late, "Ticks that began more than a period late."),
      counter("tick_time", &Stats::tick_time, "Spent in ticks.", CounterUnit::seconds),
      gauge("tick", &Stats::tick, "How long ticks take, including the policy's calls.",
            CounterUnit::seconds),
      counter("policy_failures", &Stats::policy_failures,
              "Plans dropped because the policy threw or took too long."),
      counter("uses", &Stats::uses, "Uses that were reported and processed."),
      counter("uses_sampled", &Stats::uses_sampled,
              "Uses skipped by sampling; others are weighted to represent them."),
      counter("uses_lost", &Stats::uses_lost, "Uses lost because the buffers were full."),
      counter("uses_unknown", &Stats::uses_unknown,
              "Uses of memory that is not the runtime's or was freed."),
      counter("hints", &Stats::hints, "Hints from programs."),
      counter("moves_wanted", &Stats::moves_wanted, "Moves that policies proposed."),
      counter("moves_refused", &Stats::moves_refused, "Moves that the planner refused, by reason."),
      counter("moves_started", &Stats::moves_started, "Moves begun."),
      counter("moves_done", &Stats::moves_done, "Moves made."),
      counter("moves_failed", &Stats::moves_failed, "Moves begun whose chunk stayed."),
      gauge("prediction_error", &Stats::prediction_error,
            "Median relative error of the predicted time of moves.", CounterUnit::ratio),
      gauge("chunks", &Stats::chunks, "Chunks in the scheduler's tables."),
      gauge("table_bytes", &Stats::table_bytes, "Size of these tables without heat.",
            CounterUnit::bytes),
      gauge("heat_bytes", &Stats::heat_bytes, "Size of what is known of the chunks' uses.",
            CounterUnit::bytes),
      counter("events_lost", &Stats::events_lost, "Events dropped from the event ring."),
      counter("trace_lost", &Stats::trace_lost, "Trace entries that were not written."),
  };
};

/// Of each GPU, for all processes together, as NVML reports it.
template <>
struct Counters<GpuLoad> {
  static constexpr std::tuple rows{
      gauge("kernels", &GpuLoad::kernels, "Fraction of time with a running kernel.",
            CounterUnit::ratio),
      gauge("memory", &GpuLoad::memory, "Fraction of time with memory accesses.",
            CounterUnit::ratio),
      gauge("memory_used_bytes", &GpuLoad::memory_used_bytes,
            "Memory in use, including other processes and the driver.", CounterUnit::bytes),
      gauge("memory_total_bytes", &GpuLoad::memory_total_bytes, "Memory that NVML counts.",
            CounterUnit::bytes),
      gauge("nvlink_sent_bytes_s", &GpuLoad::nvlink_sent_bytes_s, "Payload, over all links.",
            CounterUnit::bytes_per_second),
      gauge("nvlink_received_bytes_s", &GpuLoad::nvlink_received_bytes_s,
            "Payload, over all links.", CounterUnit::bytes_per_second),
      gauge("pcie_sent_bytes_s", &GpuLoad::pcie_sent_bytes_s, "Sent by the GPU.",
            CounterUnit::bytes_per_second),
      gauge("pcie_received_bytes_s", &GpuLoad::pcie_received_bytes_s, "Received by the GPU.",
            CounterUnit::bytes_per_second),
  };
};

}  // namespace vma::inline v1
