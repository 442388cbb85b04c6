#include "control/explained_moves.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace vma {
namespace {

std::string verdict_of(const Decision& decision) {
  if (decision.kind == DecisionKind::refused && !decision.reason.empty()) return decision.reason;
  std::string verdict(to_string(decision.kind));
  if (!decision.reason.empty()) verdict += ": " + decision.reason;
  return verdict;
}

ControlDecision line_of(const Decision& decision, std::uint64_t chunk_bytes) {
  ControlDecision line;
  line.at = decision.time;
  line.address = decision.chunk->begin + decision.chunk->slot * chunk_bytes;
  line.bytes = decision.chunk->bytes;
  line.from = decision.from.value_or(*decision.to);
  line.to = *decision.to;
  line.policy = decision.policy;
  line.reason = decision.why;
  line.value = decision.value;
  line.times = decision.times;
  line.last = decision.last_time.value_or(decision.time);
  if (decision.predicted) line.predicted = decision.predicted->move;
  return line;
}

}  // namespace

std::vector<ControlDecision> explained_moves(std::span<const Decision> decisions,
                                             std::uint64_t chunk_bytes, std::size_t most) {
  std::vector<ControlDecision> lines;
  std::map<std::uint32_t, std::size_t> open;  // By slot: index of the line of its move in progress.
  for (const Decision& decision : decisions) {
    if (!decision.chunk || !decision.to) continue;
    const bool follows = decision.kind == DecisionKind::started ||
                         decision.kind == DecisionKind::moved ||
                         decision.kind == DecisionKind::not_moved;
    const std::uint32_t slot = decision.chunk->slot;
    const auto known = open.find(slot);
    const bool joins = follows && known != open.end();
    if (!joins) lines.push_back(line_of(decision, chunk_bytes));
    ControlDecision& line = joins ? lines[known->second] : lines.back();
    line.verdict = verdict_of(decision);
    if (decision.kind == DecisionKind::moved && decision.happened) {
      line.took = decision.happened->move;
    }
    if (decision.kind == DecisionKind::planned) open[slot] = lines.size() - 1;
    if (decision.kind == DecisionKind::started && !joins) open[slot] = lines.size() - 1;
    if (decision.kind == DecisionKind::moved || decision.kind == DecisionKind::not_moved) {
      open.erase(slot);
    }
  }
  std::ranges::reverse(lines);
  if (lines.size() > most) lines.resize(most);
  return lines;
}

}  // namespace vma
