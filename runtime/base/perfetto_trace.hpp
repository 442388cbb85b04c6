#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <vma/place.hpp>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {

/// One chunk's move. `decision` is the number of the decision that caused it, 0 for none.
struct TracedMove {
  TimePoint begin{0}, end{0};
  Place from, to;
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t decision = 0;
  bool moved = true;
};
/// A period in which work of a GPU was stopped, by a gate for example.
struct TracedStall {
  TimePoint begin{0}, end{0};
  Place gpu;
  std::uint64_t address = 0;
  std::string_view stop;
};
/// A decision whether a chunk moves. The caller assigns a unique number above 0.
struct TracedDecision {
  TimePoint at{0};
  std::uint64_t number = 0;
  Place from, to;
  std::uint64_t address = 0;
  std::string_view policy, reason, verdict;
};

/// Writes events to a file in Chrome's trace format, which Perfetto reads: a track per GPU for
/// stalls and decisions, a track per route for moves (more if moves of one route overlap), and an
/// arrow from each decision to its move.
///
/// Any thread can record; entries wait in a bounded buffer until `flush`. After each flush the file
/// is a complete JSON array. If the disk is full, entries are lost, which is counted and logged
/// once. Nothing throws after construction. A forked child writes nothing.
/// One owner: the tracks are those of the file, and the buffer is its end.
class PerfettoTrace {
 public:
  /// Creates the file, or replaces an existing one; "%p" in its name becomes the process id.
  /// Throws: Error{invalid_argument} if it cannot be written.
  explicit PerfettoTrace(const std::string& file, std::size_t entries_max = 65'536);
  /// Calls `flush`.
  ~PerfettoTrace();
  PerfettoTrace(const PerfettoTrace&) = delete;
  PerfettoTrace& operator=(const PerfettoTrace&) = delete;

  void add(const TracedMove& move) noexcept;
  void add(const TracedStall& stall) noexcept;
  void add(const TracedDecision& decision) noexcept;
  /// Blocks: on the disk.
  void flush() noexcept;
  /// Entries lost because the buffer or the disk was full.
  std::uint64_t lost() const noexcept;

 private:
  using Route = std::pair<Place, Place>;
  struct RouteTrack {
    int track = 0;
    TimePoint end{0};
  };
  template <typename Body>
  void record(Body&& body) noexcept;
  int gpu_track(Place at) VMART_REQUIRES(mutex_);
  int move_track(const TracedMove& move) VMART_REQUIRES(mutex_);
  void name_track(int process, int track, const std::string& name) VMART_REQUIRES(mutex_);
  bool write_out(const std::string& text) noexcept VMART_REQUIRES(file_mutex_);

  const pid_t owner_;
  const std::size_t entries_max_;
  mutable Mutex mutex_;
  std::string buffer_ VMART_GUARDED_BY(mutex_);
  std::size_t entries_ VMART_GUARDED_BY(mutex_) = 0;  // Number of entries in the buffer.
  std::map<Place, int> gpu_tracks_ VMART_GUARDED_BY(mutex_);
  std::map<Route, std::vector<RouteTrack>> route_tracks_ VMART_GUARDED_BY(mutex_);
  int next_track_ VMART_GUARDED_BY(mutex_) = 1;
  std::uint64_t lost_ VMART_GUARDED_BY(mutex_) = 0;

  Mutex file_mutex_;  // Taken before `mutex_`.
  int descriptor_ VMART_GUARDED_BY(file_mutex_) = -1;
  off_t end_ VMART_GUARDED_BY(file_mutex_) = 0;  // Position of the closing bracket.
  bool any_written_ VMART_GUARDED_BY(file_mutex_) = false;
  bool failure_logged_ VMART_GUARDED_BY(file_mutex_) = false;
};

/// A trace, and a thread that writes it to disk on request. Any thread.
class PerfettoWriter {
 public:
  /// Throws: like `PerfettoTrace`.
  PerfettoWriter(Executor& executor, const std::string& file);
  /// Blocks: until everything is written.
  ~PerfettoWriter();
  PerfettoWriter(const PerfettoWriter&) = delete;
  PerfettoWriter& operator=(const PerfettoWriter&) = delete;

  PerfettoTrace& trace() noexcept { return trace_; }
  /// Does not block.
  void flush_soon() noexcept;

 private:
  void work();

  PerfettoTrace trace_;
  Mutex mutex_;
  Condition changed_;
  bool asked_ VMART_GUARDED_BY(mutex_) = false;
  bool closed_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> thread_;
};

/// Null if `file` is empty or cannot be written; the latter is logged.
std::unique_ptr<PerfettoWriter> open_trace(Executor& executor, const std::string& file);

}  // namespace vma
