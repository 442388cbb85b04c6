#pragma once

#include <chrono>
#include <cstddef>

namespace vma {

/// Limits for a peer of the control socket. A peer that exceeds one is informed and disconnected.
struct ControlLimits {
  std::size_t request_bytes_max = std::size_t{64} << 10;  ///< Of one line, including the newline.
  std::size_t connections_max = 16;
  double requests_a_second = 500;  ///< Of a process, on all its connections, on average.
  double requests_at_once = 1000;  ///< Size of a burst.
  /// Answers that the peer has not read yet. Must exceed the size of one answer with a full page.
  std::size_t output_bytes_max = std::size_t{4} << 20;
  int bad_requests_max = 8;                       ///< Invalid lines, in total.
  std::chrono::milliseconds idle_limit{300'000};  ///< Without a request, or with unread output.
};

}  // namespace vma
