#pragma once

#include "migrate/migration/move_observers.hpp"
#include "placement/deciding/decision_path.hpp"
#include "placement/planning/decision.hpp"
#include "recording/decision_log.hpp"
#include "recording/recording.hpp"
#include "scheduling/chunk_roster.hpp"
#include "telemetry/use_log.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// What a scheduler writes about its work: decisions, for the log, the recording and the listener;
/// and for the recording also what happened to memory. For the scheduler, one thread at a time.
class DecisionJournal {
 public:
  /// Called with each decision; it may only take notes. Empty: none.
  using Listener = std::function<void(const Decision&)>;

  /// All arguments outlive it; a null recording records nothing.
  DecisionJournal(const DecisionPath& path, const ChunkRoster& roster, DecisionLog& log,
                  Recording* recording, Listener listener)
      : path_(path),
        roster_(roster),
        log_(log),
        recording_(recording),
        listener_(std::move(listener)) {}

  /// The policy that makes the decisions from now on.
  void set_policy(std::string text) noexcept { policy_ = std::move(text); }
  const std::string& policy() const noexcept { return policy_; }
  /// Why no moves of policies begin now, for people; empty if they may.
  std::string why_held() const { return path_.why_held(); }
  /// Decisions name the plan that they belong to; this begins the next one.
  void begin_plan() noexcept { ++plan_; }
  std::uint64_t plan() const noexcept { return plan_; }

  /// A decision about a chunk, filled in from the books.
  Decision about(DecisionKind kind, ChunkId chunk) const;
  Decision about(DecisionKind kind, const AcceptedMove& move) const;
  /// Returns its number. Throws: std::bad_alloc.
  std::uint64_t add(Decision decision);
  /// Adds a decision without further details.
  void add(DecisionKind kind, const std::string& reason = {});
  /// The most recent ones about an allocation, or one slot of it, oldest first.
  std::vector<Decision> last(std::uint64_t allocation, std::optional<std::uint32_t> slot,
                             std::size_t count) const {
    return log_.about(allocation, slot, count);
  }

  // --- For the recording alone. All except `record_move` may throw std::bad_alloc.
  void record_allocation(const ChunkRoster::Entry& entry);
  void record_free(const ChunkRoster::Entry& entry);
  /// A chunk that moved without a decision, with the time at which its slot was switched: uses have
  /// the times of their launches, not the time of this call.
  void record_step(const ChunkStep& step);
  /// A move by a decision. Left out if there is no memory for it.
  void record_move(RecordedMove move, ChunkId chunk) noexcept;
  void record_uses(std::span<const LoggedUse> uses);
  void record_hint(const AdvisedRange& range, const ChunkRoster::Entry& entry);
  /// Writes complete blocks to the file.
  void flush();

 private:
  const DecisionPath& path_;
  const ChunkRoster& roster_;
  DecisionLog& log_;
  Recording* const recording_;
  const Listener listener_;
  std::string policy_;
  std::uint64_t plan_ = 0;
};

/// Text for people: where the chunk in a slot of an allocation is, which GPUs use it, what keeps it
/// there, and the last decisions about it.
std::vector<std::string> explain_chunk(const ChunkRoster::Entry& entry, std::uint32_t slot,
                                       const Snapshot& snapshot, const ChunkRoster& roster,
                                       const DecisionJournal& journal, bool paused);

}  // namespace vma
