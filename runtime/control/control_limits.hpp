#pragma once

#include <chrono>
#include <cstddef>

namespace vma {

/// Limits for a peer of the control socket. A peer that exceeds one is told and disconnected.
struct ControlLimits {
  std::size_t request_bytes_max = std::size_t{64} << 10;  ///< Of one line, including its end.
  std::size_t connections_max = 16;
  double requests_a_second = 500;  ///< Of one connection, on average.
  double requests_at_once = 1000;  ///< The most that can accumulate.
  /// Answers that the peer has not read yet. Larger than one answer of the largest page.
  std::size_t output_bytes_max = std::size_t{4} << 20;
  int bad_requests_max = 8;                       ///< Invalid lines, in total.
  std::chrono::milliseconds idle_limit{300'000};  ///< Without a request, or with unread output.
};

}  // namespace vma
