#pragma once

#include "migrate/gates/stops.hpp"
#include "migrate/live/batch_stop.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/live/live_staging.hpp"
#include "migrate/live/stop_tries.hpp"
#include "migrate/migration/move_parts.hpp"

#include <chrono>
#include <list>
#include <optional>

namespace vma {

/// The batches of a live move that are about to stop the streams, in the order of their gates.
///
/// A gate comes behind all that the program has launched. So while the first batch waits for its
/// gate, the gates of the following batches are sent behind it: they then arrive one after the
/// other, with what the program launched in between, instead of each behind a backlog of its own.
/// If the first batch does not move, those behind it are called off, with their copies kept. Has
/// the turn of `Stops` while a gate is on its way. Only the thread of the move calls it.
class GateLine {
 public:
  GateLine(const MoveParts& parts, LiveRanges& ranges, LiveStaging& staging, StopTries& tries);
  ~GateLine() { call_off(); }
  GateLine(const GateLine&) = delete;
  GateLine& operator=(const GateLine&) = delete;

  bool empty() const noexcept { return entries_.empty(); }
  /// Requires: empty; the batch has a chunk.
  void begin(LiveBatch batch);
  /// The first batch. Requires: there is one; so do the calls below.
  LiveBatch& batch() noexcept { return entries_.front().batch; }
  /// Whether its gate is on its way, because it was sent behind another.
  bool sent() const noexcept { return entries_.front().stop.has_value(); }
  /// Measures the backlogs for its gate, if need be. Returns a refusal and throws as
  /// `BatchStop::look`. Blocks: for the turn of `Stops`, and for backlogs.
  std::optional<GateRefusal> look();
  /// Sends its gate. Returns a refusal and throws as `BatchStop::send`. Blocks: for the turn of
  /// `Stops`.
  std::optional<GateRefusal> send();
  /// Waits for the first stream, at most until `until`; sends further gates meanwhile. True: it is
  /// time for `BatchStop::switch_chunks`.
  bool await_first(TimePoint until);
  const BatchStop& stop() const noexcept { return *entries_.front().stop; }
  /// As `BatchStop::switch_chunks`, for the first batch.
  std::optional<GateRefusal> switch_chunks();

  /// The first batch is done: the next one becomes the first. Chunks that have not moved can be
  /// staged for another batch.
  void finish() noexcept;
  /// Ends the try of the first batch, and calls the gates behind it off: their chunks are staged as
  /// before, unless their settling does not end. Blocks: until it has, or for that.
  void stand_down() noexcept;
  /// As `stand_down`; no batch is left.
  void call_off() noexcept;

 private:
  struct Entry {
    explicit Entry(LiveBatch its_batch) : batch(std::move(its_batch)) {}
    LiveBatch batch;
    std::optional<BatchStop> stop;
    std::chrono::nanoseconds stall{0};  // As predicted.
    bool refused = false;               // It was to follow, but could not be sent.
  };

  bool has_time(TimePoint now) const noexcept;
  void keep_others_up() noexcept;
  void do_more() noexcept;
  bool stage_more(const LiveChunk& last);
  bool may_send_more() const;
  void send_behind(LiveBatch batch, std::chrono::nanoseconds stall);
  std::chrono::nanoseconds pending_stall() const noexcept;
  void call_off_others() noexcept;

  const MoveParts& parts_;
  Clock& clock_;
  LiveRanges& ranges_;
  LiveStaging& staging_;
  StopTries& tries_;
  std::optional<Stops::Turn> turn_;
  std::list<Entry> entries_;
  TimePoint next_send_{0};               // No gate is sent behind the others earlier.
  std::chrono::nanoseconds drained_{0};  // How long nothing was launched while the first was sent.
  TimePoint next_pause_{0};              // If calls wait, nothing is staged earlier.
  bool refused_ = false;  // A gate behind the first one could not be sent: no more are.
};

}  // namespace vma
