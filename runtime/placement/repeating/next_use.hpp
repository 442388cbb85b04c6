#pragma once

#include <vma/snapshot.hpp>

namespace vma::inline v1 {

/// A predicted use of a chunk. Uses that follow each other closely are one.
struct NextUse {
  Time at{0};
  PlaceId device{};
  double passes = 0;  ///< Over the chunk's bytes.
};

}  // namespace vma::inline v1
