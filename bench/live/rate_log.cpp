#include "bench/live/rate_log.hpp"

#include "base/clock.hpp"

#include <algorithm>

namespace vma {

RateLog::RateLog(const Writers& writers, std::chrono::nanoseconds period)
    : writers_(writers), period_(period) {
  look();
}

void RateLog::look() {
  looks_.push_back({watch_.elapsed(), writers_.completed()});
}

void RateLog::watch(std::chrono::nanoseconds length) {
  SteadyClock clock;
  const TimePoint end = clock.now() + length;
  look();
  while (clock.now() < end) {
    poll_until(clock, std::min(end, clock.now() + period_), [] { return false; });
    look();
  }
}

void RateLog::watch(const Migration& migration) {
  look();
  SteadyClock clock;
  while (!migration.done()) {
    poll_until(clock, clock.now() + period_, [&] { return migration.done(); });
    look();
  }
}

double RateLog::at_ms(std::size_t look) const {
  return to_us(looks_[look].time) / 1e3;
}

double RateLog::per_second(std::size_t from, std::size_t to) const {
  const double seconds = (at_ms(to) - at_ms(from)) / 1e3;
  const auto launches = static_cast<double>(looks_[to].completed - looks_[from].completed);
  return seconds > 0 ? launches / seconds : 0;
}

void RateLog::add_to(Sample& sample) const {
  std::vector<double>& times = sample.series["at_ms"];
  std::vector<double>& rates = sample.series["launches_per_ms"];
  for (std::size_t i = 1; i < looks_.size(); ++i) {
    // Skips looks at a border between periods.
    if (looks_[i].time - looks_[i - 1].time < period_ / 2) continue;
    times.push_back(at_ms(i));
    rates.push_back(per_second(i - 1, i) / 1e3);
  }
}

}  // namespace vma
