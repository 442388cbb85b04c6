#pragma once

#include <optional>
#include <span>

namespace vma {

/// A rate that was seen from `begin` to `end`, in seconds since the load changed.
struct Look {
  double begin = 0, end = 0, rate = 0;
};

/// Seconds from the change until the rate is `least` again: in that look, and on average over the
/// half second from its beginning, so that neither one good look nor one bad look decides. None: it
/// never is. Requires: the looks follow each other.
std::optional<double> recovery_of(std::span<const Look> looks, double least);

}  // namespace vma
