#include "control/prometheus.hpp"

#include "base/units.hpp"

#include <vma/counters.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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
  /// A number, a count for each reason, or a summary without `_sum`, which the underlying
  /// histograms do not keep.
  void samples(double value) { line("", "", value); }
  void samples(std::uint64_t value) { line("", "", static_cast<double>(value)); }
  void samples(std::chrono::nanoseconds value) { line("", "", in_seconds(value)); }
  void samples(const std::map<std::string, std::size_t>& counts) {
    for (const auto& [reason, count] : counts) {
      sample("reason", reason, static_cast<double>(count));
    }
  }
  void samples(const DurationSummary& summary) {
    sample("quantile", "0.5", in_seconds(summary.median));
    sample("quantile", "0.99", in_seconds(summary.p99));
    sample("quantile", "1", in_seconds(summary.max));
    line("_count", "", static_cast<double>(summary.count));
  }
  void sample(std::string_view label, std::string_view of, double value) {
    line("", fmt::format("{{{}=\"{}\"}}", label, escaped_label(of)), value);
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

/// The unit, where the name does not say it.
std::string_view suffix(CounterUnit unit) {
  return unit == CounterUnit::seconds ? "_seconds" : unit == CounterUnit::ratio ? "_ratio" : "";
}

template <typename Stats, typename Value>
void family(Page& page, std::string_view prefix, const Counter<Stats, Value>& counter) {
  const bool counts = counter.kind == CounterKind::counter;
  const char* const type = std::is_same_v<Value, DurationSummary> ? "summary"
                           : counts                               ? "counter"
                                                                  : "gauge";
  page.family(
      fmt::format("{}{}{}{}", prefix, counter.name, suffix(counter.unit), counts ? "_total" : ""),
      type, counter.help);
}

template <typename Stats>
void figures(Page& page, std::string_view prefix, const Stats& stats) {
  for_each_counter<Stats>([&](const auto& counter) {
    family(page, prefix, counter);
    page.samples(stats.*counter.member);
  });
}

std::optional<double> known(std::size_t value) {
  return value == 0 ? std::nullopt : std::optional(static_cast<double>(value));
}
template <typename Value>
std::optional<double> known(const std::optional<Value>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

/// A family for each counter of which any place has a value.
template <typename Stats>
void figures_at(Page& page, std::string_view prefix, const std::vector<Stats>& places) {
  for_each_counter<Stats>([&](const auto& counter) {
    const bool may_miss = !std::is_same_v<Stats, RuntimeStats::PlaceStats> ||
                          std::string_view(counter.name) == "capacity_bytes";
    const auto value_at = [&](const Stats& place) -> std::optional<double> {
      const std::optional<double> value = known(place.*counter.member);
      return value || may_miss ? value : 0;
    };
    if (std::ranges::none_of(places,
                             [&](const Stats& place) { return value_at(place).has_value(); }))
      return;
    family(page, prefix, counter);
    for (const Stats& place : places) {
      if (const auto value = value_at(place)) page.sample("place", to_string(place.at), *value);
    }
  });
}

void loads(Page& page, const GpuLoads& loads) {
  page.family("nvml_on", "gauge", "1 if NVML provides the following values.");
  page.samples(loads.state == GpuLoads::State::on ? 1.0 : 0.0);
  if (loads.age.count() >= 0) {
    page.family("nvml_sample_age_seconds", "gauge", "Time since the last NVML sample.");
    page.samples(loads.age);
  }
  figures_at(page, "gpu_", loads.gpus);
}

}  // namespace

std::string prometheus_text(const ControlStats& stats) {
  Page page;
  figures_at(page, "", stats.runtime.places);
  loads(page, stats.runtime.loads);
  figures(page, "", stats.runtime);
  figures(page, "scheduler_", stats.scheduler);
  return std::move(page).take();
}

}  // namespace vma
