#include "placement/planning/swap_groups.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace vma {

SwapGroups::SwapGroups(std::span<const Wish> wishes, std::span<const std::optional<Refusal>> out,
                       std::vector<std::int64_t> room, double colder_factor)
    : wishes_(wishes),
      colder_factor_(colder_factor),
      room_(std::move(room)),
      victims_(room_.size()),
      used_(room_.size()) {
  for (std::size_t i = 0; i < wishes_.size(); ++i) {
    if (out[i]) continue;
    const std::size_t from = index(wishes_[i].from);
    if (wishes_[i].victim) {
      victims_[from].push_back(i);
    } else {
      movers_.push_back(i);
      room_[from] += static_cast<std::int64_t>(wishes_[i].bytes);
    }
  }
  std::ranges::sort(movers_, [&](std::size_t left, std::size_t right) {
    return goes_before(wishes_[left], wishes_[right]);
  });
  for (std::vector<std::size_t>& victims : victims_) {
    std::ranges::sort(victims, {}, [&](std::size_t i) {
      return std::tuple(wishes_[i].use_per_byte, wishes_[i].chunk, i);
    });
  }
}

std::optional<std::size_t> SwapGroups::next() {
  members_.clear();
  if (mover_ == movers_.size()) return std::nullopt;
  const std::size_t mover = movers_[mover_++];
  const Wish& wish = wishes_[mover];
  const std::vector<std::size_t>& victims = victims_[index(wish.to)];
  std::int64_t room = room_[index(wish.to)];
  for (std::size_t i = used_[index(wish.to)]; i < victims.size(); ++i) {
    const Wish& victim = wishes_[victims[i]];
    if (room >= static_cast<std::int64_t>(wish.bytes)) break;
    if (!(victim.use_per_byte * colder_factor_ < wish.use_per_byte)) break;
    room += static_cast<std::int64_t>(victim.bytes);
    members_.push_back(victims[i]);
  }
  members_.push_back(mover);
  return mover;
}

void SwapGroups::take() {
  const Wish& mover = wishes_[members_.back()];
  for (const std::size_t i : members_) {
    const auto bytes = static_cast<std::int64_t>(wishes_[i].bytes);
    room_[index(wishes_[i].to)] -= bytes;
    if (wishes_[i].victim) room_[index(wishes_[i].from)] += bytes;
  }
  used_[index(mover.to)] += members_.size() - 1;
}

void SwapGroups::leave_out() {
  const Wish& mover = wishes_[members_.back()];
  room_[index(mover.from)] -= static_cast<std::int64_t>(mover.bytes);
}

std::vector<std::size_t> SwapGroups::spare_victims() const {
  std::vector<std::size_t> spare;
  for (std::size_t at = 0; at < victims_.size(); ++at) {
    spare.insert(spare.end(), victims_[at].begin() + static_cast<std::ptrdiff_t>(used_[at]),
                 victims_[at].end());
  }
  return spare;
}

}  // namespace vma
