#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>

namespace vma::inline v1 {

/// A predicted use of a chunk. Uses that follow each other closely are one.
struct NextUse {
  Time at{0};
  PlaceId device{};
  double passes = 0;  ///< Over the chunk's bytes.
};

/// Whether predictions are to be followed: once most of them have come true, until fewer than half
/// do. The last eight or so count.
class TrackRecord {
 public:
  void note(bool came_true) {
    share_ += ((came_true ? 1 : 0) - share_) * weight;
    if (judged_ < judged_least) ++judged_;
    if (judged_ >= judged_least && share_ >= good) trusted_ = true;
    if (share_ < bad) trusted_ = false;
  }
  bool trusted() const noexcept { return trusted_; }

 private:
  static constexpr double weight = 1.0 / 8;
  static constexpr double good = 0.75, bad = 0.5;
  static constexpr std::size_t judged_least = 8;

  double share_ = 0.5;
  std::size_t judged_ = 0;
  bool trusted_ = false;
};

}  // namespace vma::inline v1
