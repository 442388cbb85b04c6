#include "placement/planning/room_fitting.hpp"

#include <algorithm>
#include <tuple>

namespace vma {

bool goes_before(const Wish& left, const Wish& right) {
  return std::tuple(-left.value_per_byte, left.chunk, left.number) <
         std::tuple(-right.value_per_byte, right.chunk, right.number);
}

RoomFitting::RoomFitting(std::span<const Wish> wishes, std::vector<std::int64_t> room,
                         std::vector<std::uint64_t> wanted, double colder_factor)
    : wishes_(wishes),
      room_at_start_(std::move(room)),
      wanted_(std::move(wanted)),
      colder_factor_(colder_factor),
      victims_(room_at_start_.size()) {
  for (std::size_t i = 0; i < wishes_.size(); ++i) {
    if (wishes_[i].victim) {
      victims_[index(wishes_[i].from)].push_back(i);
    } else {
      movers_.push_back(i);
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

bool RoomFitting::colder(const Wish& victim, const Wish& than) const {
  return victim.use_per_byte * colder_factor_ < than.use_per_byte;
}

std::vector<RoomFitting::Verdict> RoomFitting::fit(const std::vector<bool>& left_out) {
  std::vector<bool> out = left_out;
  for (int passes = 0;; ++passes) {
    room_ = room_at_start_;
    taken_.clear();
    states_.assign(wishes_.size(), State::open);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i]) states_[i] = State::out;
    }
    // The last pass makes no assumptions, so that its result is final.
    const bool optimistic = passes < passes_max;
    if (pass(optimistic) == 0 || !optimistic) break;
    for (const std::size_t i : movers_) out[i] = states_[i] == State::out;
  }
  fit_free_victims();
  std::vector<Verdict> verdicts(wishes_.size());
  for (std::size_t i = 0; i < wishes_.size(); ++i) verdicts[i] = verdict(i);
  return verdicts;
}

/// Returns how many moves found no room.
std::size_t RoomFitting::pass(bool optimistic) {
  optimistic_ = optimistic;
  if (optimistic) {
    for (const std::size_t i : movers_) {
      if (states_[i] == State::open)
        room_[index(wishes_[i].from)] += static_cast<std::int64_t>(wishes_[i].bytes);
    }
  }
  std::size_t failed = 0;
  for (const std::size_t i : movers_) {
    if (states_[i] != State::open || take(i, 0)) continue;
    states_[i] = State::out;
    ++failed;
  }
  return failed;
}

/// Takes room for a wish, with victims if needed; changes nothing if that fails.
bool RoomFitting::take(std::size_t wish, int depth) {
  const Wish& mover = wishes_[wish];
  const auto bytes = static_cast<std::int64_t>(mover.bytes);
  std::int64_t& room = room_[index(mover.to)];
  const std::size_t mark = taken_.size();
  states_[wish] = State::trying;
  if (room < bytes && depth < depth_max) {
    for (const std::size_t victim : victims_[index(mover.to)]) {
      if (room >= bytes || !colder(wishes_[victim], mover)) break;
      if (states_[victim] == State::open) take(victim, depth + 1);
    }
  }
  if (room < bytes) {
    give_back(mark);
    states_[wish] = State::open;
    return false;
  }
  room -= bytes;
  if (mover.victim || !optimistic_) room_[index(mover.from)] += bytes;
  states_[wish] = State::taken;
  taken_.push_back(wish);
  return true;
}

void RoomFitting::give_back(std::size_t mark) {
  while (taken_.size() > mark) {
    const std::size_t victim = taken_.back();
    taken_.pop_back();
    const auto bytes = static_cast<std::int64_t>(wishes_[victim].bytes);
    room_[index(wishes_[victim].to)] += bytes;
    room_[index(wishes_[victim].from)] -= bytes;
    states_[victim] = State::open;
  }
}

void RoomFitting::find_hottest() {
  hottest_wish_.assign(victims_.size(), -1);
  hottest_taken_.assign(victims_.size(), -1);
  for (const std::size_t i : movers_) {
    const std::size_t to = index(wishes_[i].to);
    hottest_wish_[to] = std::max(hottest_wish_[to], wishes_[i].use_per_byte);
    if (states_[i] == State::taken)
      hottest_taken_[to] = std::max(hottest_taken_[to], wishes_[i].use_per_byte);
  }
}

/// How many bytes the plan's victims free beyond the need of its moves to the place: those leave
/// for the place's own sake. The rest belongs to refused moves, and stays.
std::int64_t RoomFitting::free_victim_bytes(std::size_t at) const {
  std::int64_t bytes = 0;
  for (const std::size_t i : victims_[at]) bytes += static_cast<std::int64_t>(wishes_[i].bytes);
  const auto wanted = static_cast<std::int64_t>(std::min<std::uint64_t>(wanted_[at], INT64_MAX));
  return bytes - std::max<std::int64_t>(0, wanted - std::max<std::int64_t>(0, room_at_start_[at]));
}

/// Victims that no move needs: they leave if their place is to be emptied for its own sake; if
/// moves come there, only those that are colder than one of them.
void RoomFitting::fit_free_victims() {
  find_hottest();
  spared_.assign(wishes_.size(), false);
  for (std::size_t at = 0; at < victims_.size(); ++at) {
    std::int64_t left = free_victim_bytes(at);
    for (const std::size_t i : victims_[at]) {
      if (states_[i] != State::open) continue;
      if (wanted_[at] == 0) {
        take(i, 0);
        continue;
      }
      const auto bytes = static_cast<std::int64_t>(wishes_[i].bytes);
      if (!(wishes_[i].use_per_byte * colder_factor_ < hottest_taken_[at])) continue;
      spared_[i] = bytes > left;
      if (!spared_[i] && take(i, 0)) left -= bytes;
    }
  }
}

RoomFitting::Verdict RoomFitting::verdict(std::size_t wish) const {
  if (states_[wish] == State::taken) return Verdict::fits;
  const std::size_t at = index(wishes_[wish].from);
  if (!wishes_[wish].victim || wanted_[at] == 0) return Verdict::no_room;
  const double use = wishes_[wish].use_per_byte * colder_factor_;
  if (hottest_wish_[at] >= 0 && !(use < hottest_wish_[at])) return Verdict::not_colder;
  if (hottest_taken_[at] < 0 || spared_[wish]) return Verdict::not_needed;
  return use < hottest_taken_[at] ? Verdict::no_room : Verdict::not_colder;
}

}  // namespace vma
