#include "placement/planning/room_fitting.hpp"

#include <algorithm>
#include <tuple>

namespace vma {

bool goes_before(const Proposal& left, const Proposal& right) {
  return std::tuple(-left.value_per_byte, left.chunk, left.number) <
         std::tuple(-right.value_per_byte, right.chunk, right.number);
}

RoomFitting::RoomFitting(std::span<const Proposal> proposals, std::vector<std::int64_t> room,
                         std::vector<std::uint64_t> wanted, double colder_factor)
    : proposals_(proposals),
      room_at_start_(std::move(room)),
      wanted_(std::move(wanted)),
      colder_factor_(colder_factor),
      victims_(room_at_start_.size()) {
  for (std::size_t i = 0; i < proposals_.size(); ++i) {
    if (proposals_[i].victim) {
      victims_[index(proposals_[i].from)].push_back(i);
    } else {
      movers_.push_back(i);
    }
  }
  std::ranges::sort(movers_, [&](std::size_t left, std::size_t right) {
    return goes_before(proposals_[left], proposals_[right]);
  });
  for (std::vector<std::size_t>& victims : victims_) {
    std::ranges::sort(victims, {}, [&](std::size_t i) {
      return std::tuple(proposals_[i].use_per_byte, proposals_[i].chunk, i);
    });
  }
}

bool RoomFitting::colder(const Proposal& victim, const Proposal& than) const {
  return victim.use_per_byte * colder_factor_ < than.use_per_byte;
}

std::vector<RoomFitting::Verdict> RoomFitting::fit(const std::vector<bool>& left_out) {
  std::vector<bool> out = left_out;
  for (int passes = 0;; ++passes) {
    room_ = room_at_start_;
    taken_.clear();
    states_.assign(proposals_.size(), State::open);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i]) states_[i] = State::out;
    }
    // The last pass makes no assumptions, so that its result is final.
    const bool optimistic = passes < passes_max;
    if (pass(optimistic) == 0 || !optimistic) break;
    for (const std::size_t i : movers_) out[i] = states_[i] == State::out;
  }
  fit_free_victims();
  std::vector<Verdict> verdicts(proposals_.size());
  for (std::size_t i = 0; i < proposals_.size(); ++i) verdicts[i] = verdict(i);
  return verdicts;
}

/// Returns how many moves found no room.
std::size_t RoomFitting::pass(bool optimistic) {
  optimistic_ = optimistic;
  if (optimistic) {
    for (const std::size_t i : movers_) {
      if (states_[i] == State::open)
        room_[index(proposals_[i].from)] += static_cast<std::int64_t>(proposals_[i].bytes);
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

/// Takes room for a proposal, with victims if needed; changes nothing if that fails.
bool RoomFitting::take(std::size_t proposal, int depth) {
  const Proposal& mover = proposals_[proposal];
  const auto bytes = static_cast<std::int64_t>(mover.bytes);
  std::int64_t& room = room_[index(mover.to)];
  const std::size_t mark = taken_.size();
  states_[proposal] = State::trying;
  if (room < bytes && depth < depth_max) {
    for (const std::size_t victim : victims_[index(mover.to)]) {
      if (room >= bytes || !colder(proposals_[victim], mover)) break;
      if (states_[victim] == State::open) take(victim, depth + 1);
    }
  }
  if (room < bytes) {
    give_back(mark);
    states_[proposal] = State::open;
    return false;
  }
  room -= bytes;
  if (mover.victim || !optimistic_) room_[index(mover.from)] += bytes;
  states_[proposal] = State::taken;
  taken_.push_back(proposal);
  return true;
}

void RoomFitting::give_back(std::size_t mark) {
  while (taken_.size() > mark) {
    const std::size_t victim = taken_.back();
    taken_.pop_back();
    const auto bytes = static_cast<std::int64_t>(proposals_[victim].bytes);
    room_[index(proposals_[victim].to)] += bytes;
    room_[index(proposals_[victim].from)] -= bytes;
    states_[victim] = State::open;
  }
}

void RoomFitting::find_hottest() {
  hottest_proposal_.assign(victims_.size(), -1);
  hottest_taken_.assign(victims_.size(), -1);
  for (const std::size_t i : movers_) {
    const std::size_t to = index(proposals_[i].to);
    hottest_proposal_[to] = std::max(hottest_proposal_[to], proposals_[i].use_per_byte);
    if (states_[i] == State::taken)
      hottest_taken_[to] = std::max(hottest_taken_[to], proposals_[i].use_per_byte);
  }
}

/// How many bytes the plan's victims free beyond the need of its moves to the place: those leave
/// for the place's own sake. The rest belongs to refused moves, and stays.
std::int64_t RoomFitting::free_victim_bytes(std::size_t at) const {
  std::int64_t bytes = 0;
  for (const std::size_t i : victims_[at]) bytes += static_cast<std::int64_t>(proposals_[i].bytes);
  const auto wanted = static_cast<std::int64_t>(std::min<std::uint64_t>(wanted_[at], INT64_MAX));
  return bytes - std::max<std::int64_t>(0, wanted - std::max<std::int64_t>(0, room_at_start_[at]));
}

/// Victims that no move needs: they leave if their place is to be emptied for its own sake; if
/// moves come there, only those that are colder than one of them.
void RoomFitting::fit_free_victims() {
  find_hottest();
  spared_.assign(proposals_.size(), false);
  for (std::size_t at = 0; at < victims_.size(); ++at) {
    std::int64_t left = free_victim_bytes(at);
    for (const std::size_t i : victims_[at]) {
      if (states_[i] != State::open) continue;
      if (wanted_[at] == 0) {
        take(i, 0);
        continue;
      }
      const auto bytes = static_cast<std::int64_t>(proposals_[i].bytes);
      if (!(proposals_[i].use_per_byte * colder_factor_ < hottest_taken_[at])) continue;
      spared_[i] = bytes > left;
      if (!spared_[i] && take(i, 0)) left -= bytes;
    }
  }
}

RoomFitting::Verdict RoomFitting::verdict(std::size_t proposal) const {
  if (states_[proposal] == State::taken) return Verdict::fits;
  const std::size_t at = index(proposals_[proposal].from);
  if (!proposals_[proposal].victim || wanted_[at] == 0) return Verdict::no_room;
  const double use = proposals_[proposal].use_per_byte * colder_factor_;
  if (hottest_proposal_[at] >= 0 && !(use < hottest_proposal_[at])) return Verdict::not_colder;
  if (hottest_taken_[at] < 0 || spared_[proposal]) return Verdict::not_needed;
  return use < hottest_taken_[at] ? Verdict::no_room : Verdict::not_colder;
}

}  // namespace vma
