#pragma once

#include "driver/driver.hpp"
#include "migrate/gates/arrivals.hpp"
#include "migrate/gates/gate_plan.hpp"
#include "migrate/gates/gate_post.hpp"
#include "migrate/gates/stop_stats.hpp"
#include "migrate/gates/stop_word.hpp"

#include <vma/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Why a gate could not be closed, in words for the program.
struct GateRefusal {
  StopRefusal why = StopRefusal::none;
  std::string detail;
};

/// What one gate enqueues on the streams of its plan, and what has come of it. On each stream: an
/// operation that writes the stream's arrived word after its earlier work and then waits for the
/// gate's open word; or only the write (a probe), which stops nothing. Nothing here waits. One
/// thread.
class EnqueuedStops {
 public:
  /// `open` is null for probes. Requires: the post is prepared for the plan; all outlive this.
  EnqueuedStops(Driver& driver, GatePost& post, const GatePlan& plan, const StopWord* open);

  std::uint64_t epoch() const noexcept { return arrivals_.epoch(); }
  /// Enqueues on all streams, back to back. A refusal if one captures, perhaps only since. Throws:
  /// what the driver throws.
  std::optional<GateRefusal> enqueue();
  TimePoint enqueued_at() const noexcept { return enqueued_at_; }

  Arrivals& arrivals() noexcept { return arrivals_; }
  const Arrivals& arrivals() const noexcept { return arrivals_; }
  /// Excuses streams whose context has broken since. Throws: what the driver throws.
  void excuse_broken();
  /// Whether what was enqueued last may have become part of a graph.
  bool may_be_captured() noexcept;

  /// Names the streams that have not arrived; `how` says what they have not done.
  GateRefusal not_arrived(std::string_view how);

 private:
  std::optional<GateRefusal> find_capture();
  bool captures(const GateStop& stop);
  void enqueue_one(std::size_t index);

  Driver& driver_;
  Clock& clock_;
  GatePost& post_;
  const GatePlan& plan_;
  const StopWord* const open_;
  Arrivals arrivals_;
  TimePoint enqueued_at_{0};
  std::vector<std::size_t> unseen_;  // Enqueued, and not checked for captures since.
  bool captured_ = false;            // One of them did.
};

/// The context runs no more work, but still exists.
bool breaks_context(const Error& error);

}  // namespace vma
