#include "lab/replay/replay_windows.hpp"

#include "base/check.hpp"

#include <utility>

namespace vma {

ReplayWindows::ReplayWindows(Time length, std::size_t most) : most_(most), length_(length) {
  VMART_CHECK(length > Time::zero() && most > 0, "time passes from one window to the next");
}

void ReplayWindows::begin(Time now) {
  begin_ = now;
  end_ = now + length_;
  windows_.assign(1, {});
}

void ReplayWindows::pass(Time now, const std::vector<std::uint64_t>& resident) {
  auto number = static_cast<std::size_t>((now - begin_) / length_);
  for (; number >= most_; number /= 2) halve();
  windows_.resize(number + 1);
  for (std::size_t i = number; i > 0 && windows_[i - 1].resident.empty(); --i)
    windows_[i - 1].resident = resident;
  end_ = begin_ + static_cast<Time::rep>(number + 1) * length_;
}

/// Merges pairs; each ends with its second window. The current window has not ended yet.
void ReplayWindows::halve() {
  const std::size_t count = windows_.size();
  for (std::size_t i = 0; i < count; ++i) {
    ReplayWindow each = std::exchange(windows_[i], {});
    ReplayWindow& both = windows_[i / 2];
    both.bytes += each.bytes;
    both.access_s += each.access_s;
    both.local_s += each.local_s;
    both.bytes_moved += each.bytes_moved;
    both.resident = std::move(each.resident);
  }
  windows_.resize((count + 1) / 2);
  length_ *= 2;
}

std::vector<ReplayWindow> ReplayWindows::take(const std::vector<std::uint64_t>& resident) {
  windows_.back().resident = resident;
  return std::exchange(windows_, {});
}

}  // namespace vma
