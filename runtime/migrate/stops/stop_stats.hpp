#pragma once

#include <vma/migration.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace vma {

/// Why a stop was given up, or not tried, and in words for the program. `none` is a stop that led
/// to a switch.
struct StopRefusal {
  enum class Why {
    none,
    capture,
    predicted_skew,
    not_arrived,
    settle_late,
    opened_by_watchdog,
    stream_lost,
    streams_changed,
    memory_busy,
    copies_busy,
    suspension_refused,  // The last one: `StopStats` counts up to it.
  };
  using enum Why;

  Why why = none;
  std::string detail;
};

/// "predicted_skew" and so on; the keys of `MigrationReport::reasons`.
std::string_view to_string(StopRefusal::Why refusal) noexcept;

/// What a program can do about it, in a sentence that ends the message of `busy`. `stopped`:
/// streams were stopped at the gate. Empty for `none`.
std::string_view advice(StopRefusal::Why refusal, bool stopped) noexcept;

/// How long stops took and why others were given up: counts and histograms, for one migration or
/// for all, of one kind or of all. Any thread.
class StopStats {
 public:
  StopStats();
  ~StopStats();
  StopStats(const StopStats&) = delete;
  StopStats& operator=(const StopStats&) = delete;

  /// From the first stream's arrival to the last.
  void add_skew(std::chrono::nanoseconds skew) noexcept;
  /// From the last arrival until work continued; of a suspension, from its beginning.
  void add_stall(std::chrono::nanoseconds stall) noexcept;
  /// `none` is not counted.
  void add_refusal(StopRefusal::Why refusal) noexcept;

  /// From 1 us to 10 s; a shorter quantile reads as 1 us, a longer one as the maximum.
  DurationSummary skew() const;
  DurationSummary stall() const;
  /// Only refusals that occurred.
  std::map<StopRefusal::Why, std::uint64_t> refusals() const;

 private:
  struct Counts;
  std::unique_ptr<Counts> counts_;  // Constant after construction; has its own lock.
};

}  // namespace vma
