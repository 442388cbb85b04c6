#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vma {

/// The bytes of an access, numbered in the order in which it gets to them: pass by pass over its
/// range. If passes are no whole number, each leaves out the same share of every part.
class AccessBytes {
 public:
  /// A number, split into whole passes and the rest.
  struct Point {
    double number = 0, whole = 0, in_pass = 0;
  };

  AccessBytes() = default;
  /// Requires: both are above zero.
  AccessBytes(double range_bytes, double passes)
      : passes_(passes),
        all_(range_bytes * passes),
        pass_(all_ / std::ceil(passes)),
        scale_(pass_ / range_bytes) {}

  double all() const noexcept { return all_; }
  /// Requires: `number` is not negative, nor above `all` but for rounding.
  Point point(double number) const {
    const auto passes = static_cast<std::int64_t>(number / pass_);  // `floor` may be a call.
    const auto whole = static_cast<double>(passes);
    return {number, whole, number - whole * pass_};
  }
  /// How many of the bytes from one point to the other are in the part of the range from `begin` to
  /// `end`.
  double in_part(const Point& from, const Point& to, double begin, double end) const {
    if (from.number <= 0 && to.number >= all_) return passes_ * (end - begin);
    const double first = begin * scale_, bytes = (end - begin) * scale_;
    const auto reached = [&](double number) {
      return std::min(std::max(number - first, 0.0), bytes);
    };
    const double whole = to.whole - from.whole;  // One more if `to` is before `from` in its pass.
    return std::max(whole * bytes + reached(to.in_pass) - reached(from.in_pass), 0.0);
  }

 private:
  double passes_ = 1, all_ = 0;
  double pass_ = 0;   // Bytes of a pass.
  double scale_ = 1;  // These over the bytes of the range.
};

}  // namespace vma
