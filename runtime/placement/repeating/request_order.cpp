#include "placement/repeating/request_order.hpp"

#include <algorithm>
#include <utility>

namespace vma::inline v1 {

/// Returns false once it has erred too often.
bool RequestOrder::step(Follower& follower, std::uint64_t next) const {
  for (std::size_t skipped = 0; skipped <= skipped_max; ++skipped) {
    const Number at = follower.at + 1 + skipped;
    if (at >= count_) break;
    if (signature(at) != next) continue;
    follower.at = at;
    follower.run = skipped == 0 ? follower.run + 1 : follower.run / 2 + 1;
    follower.errors = 0;
    return has(at);
  }
  follower.run /= 2;
  return ++follower.errors <= errors_max && has(follower.at);
}

/// Where the last requests occurred before, unless one is there already.
void RequestOrder::begin_follower() {
  if (count_ < begins_with) return;
  std::uint64_t sum = 14695981039346656037u;  // FNV-1a.
  for (std::size_t i = 0; i < begins_with; ++i)
    sum = (sum ^ signature(count_ - 1 - i)) * 1099511628211u;
  if (last_.size() >= 2 * kept) last_.clear();
  const auto [found, is_new] = last_.try_emplace(sum, count_ - 1);
  const Number before = std::exchange(found->second, count_ - 1);
  if (is_new || !has(before)) return;
  if (std::ranges::find(followers_, before, &Follower::at) != followers_.end()) return;
  if (followers_.size() == followers_max)
    followers_.erase(std::ranges::min_element(followers_, {}, &Follower::run));
  followers_.push_back({before, begins_with, 0});
}

std::optional<RequestOrder::Number> RequestOrder::add(std::uint64_t next) {
  signatures_.resize(kept);
  std::erase_if(followers_, [&](Follower& follower) { return !step(follower, next); });
  signatures_[count_ % kept] = next;
  ++count_;
  begin_follower();
  const auto best = std::ranges::max_element(followers_, {}, [](const Follower& follower) {
    return std::pair(follower.errors == 0 ? follower.run : 0, follower.at);
  });
  if (best == followers_.end() || best->errors > 0) return std::nullopt;
  return best->at;
}

}  // namespace vma::inline v1
