#pragma once

#include <chrono>
#include <cstddef>

namespace vma {

/// What a peer of the control socket may take. Who goes beyond is told so and closed.
struct ControlLimits {
  std::size_t request_bytes_max = std::size_t{64} << 10;  ///< Of one line, its end included.
  std::size_t connections_max = 16;
  double requests_a_second = 500;  ///< Of one connection, on average.
  double requests_at_once = 1000;  ///< That it may save up.
  /// Answers that the peer has not read yet. Holds more than one answer of the largest page.
  std::size_t output_bytes_max = std::size_t{4} << 20;
  int bad_requests_max = 8;                       ///< Lines that are no request, in all.
  std::chrono::milliseconds idle_limit{300'000};  ///< Without a request, or with nothing read.
};

}  // namespace vma
