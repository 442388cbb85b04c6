#pragma once

#include "lab/trace/trace_event.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace vma {

/// How long outputs are that a server has not generated yet: as long on average as those that have
/// ended. It does not know how long a given one will be. Not thread-safe.
class OutputForecast {
 public:
  /// An output of so many tokens ends then.
  void add(Time end, std::uint64_t tokens) { coming_.emplace(end, tokens); }
  /// What an output that starts now announces about its cache: `reads` for the expected number of
  /// tokens. Nothing as long as no output has ended. Requires: times do not decrease.
  std::optional<TraceEvent> hint(Time now, Time token_time);
  /// A hint, without an object and range, that so many tokens will read it from now on, and end
  /// after that time.
  static TraceEvent reads(double tokens, Time token_time);

 private:
  using Output = std::pair<Time, std::uint64_t>;

  std::priority_queue<Output, std::vector<Output>, std::greater<>> coming_;
  double tokens_ = 0, ended_ = 0;
};

}  // namespace vma
