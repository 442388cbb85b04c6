#pragma once

#include "lab/policies/lab_policies.hpp"

#include <vma/policy.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// What a policy was told, and what it answered.
struct Transcript {
  std::vector<std::string> lines;
  // Of the last call.
  std::optional<Time> now;
  std::optional<MachineCosts> costs;
  std::size_t hints = 0;
};

/// Passes everything on to a policy of that name, and writes it down.
class Witness : public Policy {
 public:
  Witness(const std::string& policy, std::shared_ptr<Transcript> to)
      : inner_(lab_policies().make(policy)), to_(std::move(to)) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override {
    note("{} by {}: {} read, {} written{}", index(use.chunk), index(use.device), use.bytes_read,
         use.bytes_written, use.hint == nullptr ? "" : text_of(*use.hint));
    to_->hints += use.hint != nullptr ? 1 : 0;
    note_row(use.chunk, snapshot);
    ask(snapshot, plan, [&](Plan& proposals) { inner_->on_use(use, snapshot, proposals); });
  }
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    std::string changed;
    for (const ChunkId chunk : snapshot.changed()) changed += fmt::format(" {}", index(chunk));
    note("tick, changed:{}", changed);
    ask(snapshot, plan, [&](Plan& proposals) { inner_->on_tick(snapshot, proposals); });
  }
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override {
    note("{} bytes at {} for {}, elsewhere {}", pressure.bytes, index(pressure.at),
         index(pressure.device), pressure.elsewhere);
    ask(snapshot, plan,
        [&](Plan& proposals) { inner_->on_pressure(pressure, snapshot, proposals); });
  }
  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> places) override {
    note("{} bytes in {} for {}: {}", request.bytes, request.chunk_bytes, index(request.device),
         request.tag);
    inner_->on_alloc(request, snapshot, places);
    for (const PlaceId place : places) note("  at {}", index(place));
    see(snapshot);
  }
  void on_gone(ChunkId chunk) override {
    note("gone {}", index(chunk));
    inner_->on_gone(chunk);
  }
  void on_result(const MoveResult& result, const Snapshot& snapshot) override {
    note("{} from {} to {}: {}, took {}, stall {}", index(result.chunk), index(result.from),
         index(result.to), result.moved, result.took.count(), result.stall.count());
    inner_->on_result(result, snapshot);
  }

 private:
  template <typename... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    to_->lines.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  static std::string text_of(const Hint& hint) {
    const auto time = [](const std::optional<Time>& at) { return at ? at->count() : -1; };
    return fmt::format(", a hint: {} passes of {} at {} until {}", hint.passes,
                       to_string(hint.device), time(hint.next_use), time(hint.until));
  }
  void note_row(ChunkId chunk, const Snapshot& snapshot) {
    const ChunkRow& row = snapshot.chunk(chunk);
    const Heat heat = snapshot.total_heat(chunk);
    note("  at {}, born {}, moved {} {} times, moving {}, heat {} {}", index(row.at),
         row.born.count(), row.last_move.count(), row.recent_moves, row.moving, heat.short_term(),
         heat.long_term());
  }
  void see(const Snapshot& snapshot) {
    to_->now = snapshot.now();
    to_->costs = snapshot.costs();
    for (const PlaceState& place : snapshot.places())
      note("  {}: {} used, {} free", to_string(place.place), place.used_bytes, place.free_bytes());
  }
  /// Values without their last digits: a place's demand fades whenever a scheduler looks.
  template <typename Call>
  void ask(const Snapshot& snapshot, Plan& plan, const Call& call) {
    note("  now {}", snapshot.now().count());
    const std::size_t before = plan.moves().size();
    call(plan);
    for (const Move& move : plan.moves().subspan(before))
      note("  {} to {}, worth {:.12g}, victim {}, copy {}: {}", index(move.chunk), index(move.to),
           move.value, move.victim, move.keep_copy, move.reason);
    if (plan.declines()) note("  declines");
    see(snapshot);
  }

  const std::unique_ptr<Policy> inner_;
  const std::shared_ptr<Transcript> to_;
};

}  // namespace vma
