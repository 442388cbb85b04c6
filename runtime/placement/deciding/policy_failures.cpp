#include "placement/deciding/policy_failures.hpp"

namespace vma {

PolicyFailures::Replacement PolicyFailures::failed(PolicyEntry entry, Time now,
                                                   Replacement least) noexcept {
  const int in_a_row = ++in_a_row_.at(static_cast<std::size_t>(entry));
  if (in_window_ == 0 || now > window_begin_ + limits_.window) {
    in_window_ = 0;
    window_begin_ = now;
  }
  ++in_window_;
  if (in_a_row >= limits_.in_a_row_max) return Replacement::failed_in_a_row;
  if (in_window_ >= limits_.in_window_max) return Replacement::failed_in_window;
  return least;
}

}  // namespace vma
