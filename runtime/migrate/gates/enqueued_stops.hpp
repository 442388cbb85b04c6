#pragma once

#include "base/clock.hpp"
#include "driver/driver.hpp"
#include "migrate/gates/backlog.hpp"
#include "migrate/gates/gate_plan.hpp"
#include "migrate/gates/gate_post.hpp"
#include "migrate/stops/stop_stats.hpp"
#include "migrate/stops/stop_words.hpp"

#include <vma/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Which streams have written an epoch into their words, and when that was seen. A word that was
/// seen and is overwritten later still counts; a word with another epoch has not arrived.
class Arrivals {
 public:
  Arrivals(Clock& clock, std::uint64_t epoch, std::size_t count);

  std::uint64_t epoch() const noexcept { return epoch_; }
  /// The stream's write is about to be enqueued: from here on its word is polled.
  void expect(std::size_t index, std::uint64_t* word) noexcept;
  /// The stream runs no work and will not: it counts as arrived.
  void excuse(std::size_t index) noexcept;
  /// Polls the words of those that have not arrived. Makes no blocking calls.
  void look() noexcept;
  /// Whether any has arrived, as `look` would find. From any thread.
  bool any_now() const noexcept;
  /// Whether all have. From any thread.
  bool all_now() const noexcept;
  /// None that has arrived did so later, whenever `look` found it.
  void were_seen_by(TimePoint latest) noexcept;

  bool any() const noexcept { return first_.has_value(); }
  bool all() const noexcept { return missing_ == 0; }
  bool has(std::size_t index) const noexcept { return streams_[index].arrived; }
  /// Whether `expect` was called for it.
  bool expects(std::size_t index) const noexcept { return streams_[index].word != nullptr; }
  /// Whether one that is expected has not arrived.
  bool waits() const noexcept;
  /// Time from `expect` to the arrival; none if the stream was excused or has not arrived.
  std::optional<std::chrono::nanoseconds> depth(std::size_t index) const noexcept;
  /// First and last arrival of those that were not excused; now, if there are none.
  TimePoint first() const noexcept;
  TimePoint last() const noexcept;

 private:
  struct Stream {
    std::atomic<std::uint64_t*> word = nullptr;
    TimePoint expected_at{0};
    TimePoint seen_at{0};
    bool arrived = false;
    bool excused = false;
  };
  Clock& clock_;
  const std::uint64_t epoch_;
  std::vector<Stream> streams_;
  std::size_t missing_;
  std::optional<TimePoint> first_;
  TimePoint last_{0};
};

/// What one gate enqueues on the streams of its plan, and what has come of it. On each stream: an
/// operation that writes the stream's arrived word after its earlier work and then waits for the
/// gate's open word; or, to measure backlogs, only the write (a probe), which stops nothing.
///
/// The stream with the deepest backlog is told first, the others so that all arrive together, or as
/// soon as one has arrived (`schedule_stops`). Nothing here waits. One thread.
/// One owner: one order of stops, and how far it has been enqueued.
class EnqueuedStops {
 public:
  /// `open` is null for probes. Requires: the post is prepared for the plan; all outlive this.
  EnqueuedStops(Driver& driver, GatePost& post, const GatePlan& plan, const StopWord* open);

  std::uint64_t epoch() const noexcept { return arrivals_.epoch(); }
  const GatePlan& plan() const noexcept { return plan_; }
  /// A refusal if a stream captures now. Throws: what the driver throws.
  std::optional<StopRefusal> find_capture();
  /// The first stops are due now, the others when these backlogs say, or once a stream has arrived
  /// if they `may_follow`.
  void begin(std::vector<Backlog> backlogs, bool may_follow = true);
  std::chrono::nanoseconds deepest() const noexcept;
  /// `never` once all are enqueued, or while those that are left follow an arrival.
  TimePoint next_due() const noexcept;
  bool all_enqueued() const noexcept { return next_ == starts_.size(); }
  /// Whether nothing is enqueued before a stream arrives.
  bool awaits_arrival() const noexcept { return all_enqueued() || starts_[next_].follows; }
  /// When the last one was enqueued. Requires: `awaits_arrival`.
  TimePoint enqueued_at() const noexcept { return enqueued_at_; }
  /// Enqueues all that are due together next, back to back, whether or not it is time. A refusal if
  /// a stream captures, perhaps only since. Throws: what the driver throws.
  std::optional<StopRefusal> enqueue_next();

  Arrivals& arrivals() noexcept { return arrivals_; }
  const Arrivals& arrivals() const noexcept { return arrivals_; }
  /// Enters how long the streams took into what the post knows of their backlogs.
  void learn();
  /// The backlogs are not what they seemed: the next gate measures them.
  void forget_backlogs();
  /// Excuses streams whose context has broken since. Throws: what the driver throws.
  void excuse_broken();
  /// Whether what was enqueued last may have become part of a graph.
  bool may_be_captured() noexcept;

  /// Names the streams that have not arrived; `how` says what they have not done.
  StopRefusal not_arrived(std::string_view how);
  /// A stream of the plan, as the program knows it.
  std::string name(std::size_t index);

 private:
  std::optional<StopRefusal> find_capture(std::span<const StopStart> starts);
  bool captures(const GateStop& stop);
  void enqueue_one(std::size_t index);

  Driver& driver_;
  Clock& clock_;
  GatePost& post_;
  const GatePlan& plan_;
  const StopWord* const open_;
  Arrivals arrivals_;
  std::vector<Backlog> backlogs_;  // As they were when it began.
  std::vector<StopStart> starts_;  // In the order in which they are enqueued.
  std::size_t next_ = 0;           // All before it have been enqueued.
  TimePoint begun_{0};
  TimePoint enqueued_at_{0};
  std::vector<StopStart> unseen_;  // Enqueued, and not checked for captures since.
  bool captured_ = false;          // One of them did.
};

/// The context runs no more work, but still exists.
bool breaks_context(const Error& error);

}  // namespace vma
