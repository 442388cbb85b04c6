#include "scheduling/decision_journal.hpp"

#include "base/printable.hpp"
#include "base/units.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "placement/policies/policy_text.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// A proposal that is refused anew at every tick is listed once, with its last time.
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
                    what, decision.why, decision.why.empty() || decision.reason.empty() ? "" : "; ",
                    decision.reason));
  }
  if (lines.size() > lines_max) lines.erase(lines.begin(), lines.end() - lines_max);
  return lines;
}

/// The share of a second that a GPU's accesses to a place take, of all chunks there.
double path_use(const Snapshot& snapshot, PlaceId device, PlaceId at) {
  const double rate = snapshot.costs().access_rate(device, at);
  double use = 0;
  for (std::uint32_t number = 0; number < snapshot.chunks().size(); ++number) {
    if (snapshot.chunks()[number].bytes == 0 || snapshot.chunks()[number].at != at) continue;
    snapshot.for_each_user(ChunkId{number}, [&](PlaceId user, const Heat& heat) {
      if (user == device && rate > 0) use += heat.short_term() / rate;
    });
  }
  return use;
}

/// From which use of a path on the policy counts savings, in full: its parameter `limit`. 0:
/// always.
double limit_of(const std::string& policy) try {
  const PolicyText text = split_policy_text(policy);
  const PolicyKind* const kind = built_in_policies().find(text.name);
  if (kind == nullptr) return 0;
  const bool has_it = std::ranges::any_of(
      kind->parameters, [](const PolicyParameter& each) { return each.name == "limit"; });
  return has_it ? parse_policy_values(*kind, text.parameters)["limit"] : 0;
} catch (const Error&) {  // Of a policy around another one.
  return 0;
}

std::string time_of(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

/// What a move to the GPU that uses the chunk most would bring. Empty if it lies there, or if no
/// GPU uses it.
std::string what_a_move_saves(ChunkId chunk, const Snapshot& snapshot, const ChunkRoster& roster,
                              const std::string& policy) {
  const ChunkRow& row = snapshot.chunk(chunk);
  std::optional<PlaceId> user;
  double most = 0;
  snapshot.for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    if (heat.short_term() <= most) return;
    most = heat.short_term();
    user = device;
  });
  if (!user || *user == row.at) return {};
  const MachineCosts& costs = snapshot.costs();
  if (costs.access_rate(*user, row.at) <= 0 || costs.access_rate(*user, *user) <= 0) return {};
  const double saved =
      most / costs.access_rate(*user, row.at) - most / costs.access_rate(*user, *user);
  if (saved <= 0) return {};
  const std::string there = to_string(roster.place_at(*user));
  const std::string here = to_string(roster.place_at(row.at));
  const Time cost = costs.move_time(row.at, *user, row.bytes);
  std::string text = fmt::format("a move to {} would save {} a second", there, time_of(saved));
  if (cost != Time::max()) text += fmt::format(" and take {}", time_of(in_seconds(cost)));
  const double use = path_use(snapshot, *user, row.at), limit = limit_of(policy);
  text += fmt::format("; {} uses its path to {} {:.2g} % of the time", there, here, 100 * use);
  if (limit > 0) {
    const bool below = use < limit / 2;
    text += fmt::format("{} {} counts savings from {:.0f} % on, and in full from {:.0f} % on",
                        below ? ", which is too little:" : ";", policy, 50 * limit, 100 * limit);
  }
  return text;
}

}  // namespace

Decision DecisionJournal::about(DecisionKind kind, ChunkId chunk) const {
  Decision decision;
  decision.kind = kind;
  const Snapshot snapshot = path_.snapshot();
  if (index(chunk) >= snapshot.chunks().size()) return decision;
  const ChunkRow& row = snapshot.chunk(chunk);
  const ChunkRoster::Entry* entry = roster_.of(row);
  if (entry == nullptr) return decision;
  decision.chunk = DecidedChunk{row.allocation, to_integer(entry->begin), row.slot, row.bytes,
                                std::string(snapshot.tag(chunk))};
  return decision;
}

Decision DecisionJournal::about(DecisionKind kind, const AcceptedMove& move) const {
  Decision decision = about(kind, move.chunk);
  decision.from = roster_.place_at(move.from);
  decision.to = roster_.place_at(move.to);
  return decision;
}

std::uint64_t DecisionJournal::add(Decision decision) {
  decision.time = path_.books().now();
  decision.policy = policy_;
  log_.add(decision);
  if (recording_ != nullptr) recording_->add(decision);
  if (listener_) listener_(decision);
  return decision.sequence;
}

void DecisionJournal::add(DecisionKind kind, const std::string& reason) {
  Decision decision;
  decision.kind = kind;
  decision.reason = reason;
  add(std::move(decision));
}

void DecisionJournal::record_step(const ChunkStep& step) {
  const ChunkRoster::Entry* entry = roster_.around(step.address);
  if (recording_ == nullptr || entry == nullptr) return;
  if (step.kind == ChunkStep::Kind::stopped) {
    recording_->add(
        RecordedStall{step.begin, step.end - step.begin, step.skew, entry->number, step.streams});
    return;
  }
  RecordedMove record;
  record.slot = static_cast<std::uint32_t>((step.address - entry->begin) / entry->chunk_bytes);
  const Snapshot snapshot = path_.snapshot();
  const Time recorded = snapshot.chunks()[index(entry->first) + record.slot].born;
  if (step.from == step.to || step.switched <= recorded)
    return;  // As the allocation's record has it.
  record.start = step.begin;
  record.end = step.switched;
  record.stall = step.stall;
  record.allocation = entry->number;
  record.bytes = step.bytes;
  record.from = roster_.place_of(step.from);
  record.to = roster_.place_of(step.to);
  record.moved = true;
  recording_->add(record);
}

void DecisionJournal::record_move(RecordedMove move, ChunkId chunk) noexcept {
  if (recording_ == nullptr) return;
  const ChunkRow& row = path_.snapshot().chunk(chunk);
  move.allocation = row.allocation;
  move.slot = row.slot;
  recording_->add(move);
}

void DecisionJournal::record_allocation(const ChunkRoster::Entry& entry) {
  if (recording_ == nullptr) return;
  const Snapshot snapshot = path_.snapshot();
  RecordedAllocation record;
  record.time = path_.books().now();
  record.allocation = entry.number;
  record.begin = to_integer(entry.begin);
  record.bytes = entry.size_bytes;
  record.chunk_bytes = entry.chunk_bytes;
  record.tag = snapshot.tag(entry.first);
  for (std::size_t slot = 0; slot < entry.slots; ++slot) {
    const PlaceId at = snapshot.chunks()[index(entry.first) + slot].at;
    if (!record.places.empty() && record.places.back().at == at) {
      ++record.places.back().chunks;
      continue;
    }
    if (record.places.size() == place_runs_max) {
      recording_->add(record);
      record.first_slot = static_cast<std::uint32_t>(slot);
      record.places.clear();
    }
    record.places.push_back({at, 1});
  }
  recording_->add(record);
}

void DecisionJournal::record_free(const ChunkRoster::Entry& entry) {
  if (recording_ != nullptr) recording_->add(RecordedFree{path_.books().now(), entry.number});
}

void DecisionJournal::record_uses(std::span<const LoggedUse> uses) {
  if (recording_ == nullptr) return;
  std::vector<RecordedUse> records;
  for (const LoggedUse& use : uses) {
    const ChunkRoster::Entry* entry = roster_.around(use.address);
    if (entry == nullptr) continue;
    const std::uint64_t offset = use.address - entry->begin;
    if (path_.snapshot().chunk(entry->chunk_at(offset)).dropped) continue;
    records.push_back({use.at, entry->number, offset, use.bytes, use.passes, use.weight,
                       roster_.place_of(gpu(index(use.device))), use.kind});
  }
  recording_->add(records);
}

void DecisionJournal::record_hint(const AdvisedRange& range, const ChunkRoster::Entry& entry) {
  if (recording_ == nullptr) return;
  recording_->add(
      RecordedHint{range.at, entry.number, range.address - entry.begin, range.bytes, range.hint});
}

void DecisionJournal::flush() {
  log_.flush(path_.books().now());
  if (recording_ != nullptr) recording_->flush(path_.books().now());
}

std::vector<std::string> explain_chunk(const ChunkRoster::Entry& entry, std::uint32_t slot,
                                       const Snapshot& snapshot, const ChunkRoster& roster,
                                       const DecisionJournal& journal, bool paused) {
  std::vector<std::string> lines;
  const ChunkRow& row = snapshot.chunk(entry.chunk(slot));
  lines.push_back(fmt::format("chunk {} of {:#x}: {} at {}, moved {}", slot,
                              to_integer(entry.begin), bytes_text(row.bytes),
                              to_string(roster.place_at(row.at)), counted(row.generation, "time")));
  snapshot.for_each_user(entry.chunk(slot), [&](PlaceId device, const Heat& heat) {
    lines.push_back(fmt::format("{} uses it {:.3g} GB/s now, {:.3g} GB/s on the long average",
                                to_string(roster.place_at(device)), heat.short_term() / 1e9,
                                heat.long_term() / 1e9));
  });
  if (std::string saves = what_a_move_saves(entry.chunk(slot), snapshot, roster, journal.policy());
      !saves.empty()) {
    lines.push_back(std::move(saves));
  }
  if (!row.movable) {
    const auto allocation = entry.allocation.lock();
    const std::string why = allocation ? allocation->why_pinned() : "";
    lines.push_back("it cannot move: " + (why.empty() ? "it is pinned or poisoned" : why));
  }
  if (!row.in_scope) lines.push_back(fmt::format("it does not move: {}", Migrator::why_no_stop));
  if (row.parked) lines.push_back("it is parked");
  if (row.dropped)
    lines.push_back("its contents were dropped: it has no memory until it is resumed");
  if (row.moving) lines.push_back("a move of it is planned or in progress");
  if (paused) lines.push_back("the scheduler is paused");
  if (std::string held = journal.why_held(); !held.empty()) lines.push_back(std::move(held));
  for (std::string& line : last_decisions(journal, row.allocation, slot)) {
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace vma
