#include "lab/generate/output_forecast.hpp"

#include <algorithm>

namespace vma {

std::optional<TraceEvent> OutputForecast::hint(Time now, Time token_time) {
  for (; !coming_.empty() && coming_.top().first <= now; coming_.pop()) {
    tokens_ += static_cast<double>(coming_.top().second);
    ++ended_;
  }
  if (ended_ == 0) return std::nullopt;
  return reads(tokens_ / ended_, token_time);
}

TraceEvent OutputForecast::reads(double tokens, Time token_time) {
  const double ns = tokens * static_cast<double>(token_time.count());
  Hint hint;
  hint.next_use = Time(0);
  hint.passes = tokens;
  hint.until = std::max(Time(1), Time(static_cast<std::int64_t>(ns)));
  return hint_event(hint);
}

}  // namespace vma
