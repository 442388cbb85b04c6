#pragma once

#include <vma/snapshot.hpp>

#include <algorithm>
#include <cstdint>

namespace vma::inline v1 {

/// A token bucket of bytes. It is open while any bytes are left; more may be taken than are left,
/// which leaves a debt, so that a chunk larger than the bucket can move at all.
class ByteQuota {
 public:
  /// Full at the first call. `depth`: the most that can accumulate.
  void refill(Time now, double bytes_s, double depth) {
    const double passed = std::chrono::duration<double>(now - filled_).count();
    left_ = started_ ? std::min(depth, left_ + bytes_s * std::max(0.0, passed)) : depth;
    filled_ = now;
    started_ = true;
  }
  bool open() const { return left_ > 0; }
  void take(std::uint64_t bytes) { left_ -= static_cast<double>(bytes); }
  void give_back(std::uint64_t bytes) { left_ += static_cast<double>(bytes); }

 private:
  double left_ = 0;
  Time filled_{0};
  bool started_ = false;
};

}  // namespace vma::inline v1
