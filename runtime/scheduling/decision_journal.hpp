#pragma once

#include "migrate/moves/chunk_step.hpp"
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

/// What a scheduler writes of its work: decisions, for the log, the recording and whoever is told;
/// and for the recording alone what happened to memory. The scheduler's, one thread at a time.
class DecisionJournal {
 public:
  /// Told of each decision; it may only take notes. Empty: nobody.
  using Listener = std::function<void(const Decision&)>;

  /// All live longer; a null recording records nothing.
  DecisionJournal(const DecisionPath& path, const ChunkRoster& roster, DecisionLog& log,
                  Recording* recording, Listener listener)
      : path_(path),
        roster_(roster),
        log_(log),
        recording_(recording),
        listener_(std::move(listener)) {}

  /// Whose decisions they are from now on.
  void set_policy(const std::string& text) { policy_ = text; }
  const std::string& policy() const noexcept { return policy_; }
  /// Decisions name the plan that they belong to.
  void begin_plan() noexcept { ++plan_; }
  std::uint64_t plan() const noexcept { return plan_; }

  /// A decision about a chunk, with what the books say of it.
  Decision about(DecisionKind kind, ChunkId chunk) const;
  Decision about(DecisionKind kind, const AcceptedMove& move) const;
  /// Returns its number. Throws: std::bad_alloc.
  std::uint64_t add(Decision decision);
  /// A decision that says no more than its kind.
  void add(DecisionKind kind, const std::string& reason = {});
  /// The last ones about an allocation, or one slot of it, oldest first.
  std::vector<Decision> last(std::uint64_t allocation, std::optional<std::uint32_t> slot,
                             std::size_t count) const {
    return log_.about(allocation, slot, count);
  }

  // --- For the recording alone. Each may throw std::bad_alloc, but `move`.
  void record_allocation(const ChunkRoster::Entry& entry);
  void record_free(const ChunkRoster::Entry& entry);
  /// A chunk that moved by no decision, with the time at which its slot was switched: uses have the
  /// times of their launches, and not that of this look.
  void record_step(const ChunkStep& step);
  /// A move by a decision. What there is no memory for is left out.
  void record_move(RecordedMove move, ChunkId chunk) noexcept;
  void record_uses(std::span<const LoggedUse> uses);
  void record_hint(const AdvisedRange& range, const ChunkRoster::Entry& entry);
  /// Writes out what is complete.
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

}  // namespace vma
