#include "scheduling/explanation.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>

namespace vma {
namespace {

/// A wish that is refused anew at every tick is listed once, with its last time.
std::vector<std::string> last_decisions(const DecisionJournal& journal, std::uint64_t allocation,
                                        std::uint32_t slot) {
  constexpr std::size_t decisions_seen = 1024, lines_max = 16;
  std::vector<std::string> lines;
  std::string last;
  for (const Decision& decision : journal.last(allocation, slot, decisions_seen)) {
    std::string what = fmt::format("{} {}{}{}", decision.policy, to_string(decision.kind),
                                   decision.from ? " from " + to_string(*decision.from) : "",
                                   decision.to ? " to " + to_string(*decision.to) : "");
    // The numbers in a reason change from tick to tick.
    const std::string reason = decision.reason.substr(0, decision.reason.find(':'));
    if (last == what + reason && !lines.empty()) lines.pop_back();
    last = what + reason;
    lines.push_back(
        fmt::format("{:.3f} s {}: {}{}{}", std::chrono::duration<double>(decision.time).count(),
                    what, decision.wish,
                    decision.wish.empty() || decision.reason.empty() ? "" : "; ", decision.reason));
  }
  if (lines.size() > lines_max) lines.erase(lines.begin(), lines.end() - lines_max);
  return lines;
}

}  // namespace

std::vector<std::string> explain_chunk(const ChunkRoster::Entry& entry, std::uint32_t slot,
                                       const Snapshot& snapshot, const ChunkRoster& roster,
                                       const DecisionJournal& journal, bool paused) {
  std::vector<std::string> lines;
  const ChunkRow& row = snapshot.chunk(entry.chunk(slot));
  lines.push_back(fmt::format("chunk {} of {:#x}: {} bytes at {}, moved {} times", slot,
                              to_integer(entry.begin), row.bytes,
                              to_string(roster.location_of(row.at)), row.generation));
  snapshot.for_each_user(entry.chunk(slot), [&](PlaceId device, const Heat& heat) {
    lines.push_back(fmt::format("{} uses it {:.3g} GB/s now, {:.3g} GB/s on the long average",
                                to_string(roster.location_of(device)), heat.short_term() / 1e9,
                                heat.long_term() / 1e9));
  });
  if (!row.movable) {
    const auto allocation = entry.allocation.lock();
    const std::string why = allocation ? allocation->why_pinned() : "";
    lines.push_back("it cannot move: " + (why.empty() ? "it is pinned or poisoned" : why));
  }
  if (!row.in_scope) lines.push_back("it does not move: no attached stream may use it");
  if (row.parked) lines.push_back("it is parked");
  if (row.dropped)
    lines.push_back("its contents were dropped: it has no memory until it is resumed");
  if (row.moving) lines.push_back("a move of it is planned or in progress");
  if (paused) lines.push_back("the scheduler is paused");
  for (std::string& line : last_decisions(journal, row.allocation, slot)) {
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace vma
