#pragma once

#include <vma/export.hpp>
#include <vma/location.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// A run of bytes of one allocation that lie at one place. Neighbours at one place are merged.
struct Extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  Location at;
  /// Grows by one with each move of a chunk in the extent; the largest of its chunks.
  std::uint64_t generation = 0;
  /// It has no memory: its contents were dropped where `at` says. `Runtime::resume` ends that.
  bool dropped = false;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// What a move stops: `attached` streams only, at gates of their own, or (`hold`) everything in
/// each context in use.
enum class StopScope { attached, hold };

/// What a program enqueues on a stream that it attaches.
///
///                  a gate stops it by   beside a thread that frees device memory all the time
///   any            a kernel launch      moves may end in `busy`: the driver keeps launches waiting
///   no_graphs      a memory operation   moves mostly go on
///
/// A gate may lose what a graph writes that is launched on a `no_graphs` stream while it closes:
/// driver 580 orders the two neither way. That goes for graphs that kernels launch, too. Streams of
/// green contexts and programmatic dependent launches are work like any other.
enum class StreamWork { any, no_graphs };

/// How bytes cross. `stopped`: the work stops first, then the bytes are copied. `live`: they are
/// copied while the work goes on, and once it stands, only what changed since is copied again.
/// `automatic` takes for each chunk the one that is likely to stall streams for less time.
///
/// A chunk can move live from a GPU to any place that this GPU reaches (`vmart doctor` shows who
/// reaches whom). From a host node, and to a place out of the GPU's reach, it cannot: no processor
/// that sees both sides is fast enough to find what changed. `automatic` moves such chunks stopped;
/// `live` throws Error{unsupported} for them, before anything of the chunk is stopped, since it
/// promises that streams never stall for a whole copy. Chunks that a clean copy awaits at the
/// target need no copy and move in every mode.
enum class Mode { automatic, live, stopped };

enum class Outcome { done, partly, cancelled, failed };

/// How far a migration is, for `MigrateOptions::on_progress`.
struct MigrationProgress {
  int chunks = 0;
  int chunks_moved = 0;
  std::size_t bytes_asked = 0;
  std::size_t bytes_moved = 0;
};

struct MigrateOptions {
  /// The synchronous `migrate` holds and copies stopped unless `scope` is `attached`.
  Mode mode = Mode::automatic;
  /// Not set: `migrate` holds, `migrate_async` stops the attached streams.
  std::optional<StopScope> scope;
  /// How long the work may take to come to rest before the move ends in `busy`; for gates, how long
  /// a chunk is tried, which is also how long a stream's backlog may be (2 s at least). What
  /// `RuntimeOptions::stall_budget` makes a chunk wait does not count. Zero takes
  /// `RuntimeOptions::hold_limit`.
  std::chrono::milliseconds deadline{0};
  /// Of moves that wait for the same route, the one with the highest goes first.
  int priority = 0;
  /// Allocates all target memory before stopping anything; if that fails, nothing moves.
  bool reserve_first = false;
  /// The caller guarantees that no running work touches the range: nothing is stopped. For drivers
  /// that have no hold, and for programs that have synchronised already.
  bool nothing_runs = false;
  /// A pinned chunk is waited for until `deadline`; otherwise the move ends in `pinned`.
  bool wait_for_pins = false;
  /// Live moves compare the bytes themselves and trust no digest. Slower.
  bool paranoid = false;
  /// Of chunks of a read-only allocation (`Runtime::read_only`) that go from host memory to HBM,
  /// the host memory is kept with the bytes in it. A move back there while the allocation has
  /// stayed read-only reuses it and copies nothing. It is dropped when the memory is needed.
  bool keep_clean_copy = false;
  /// Called after each chunk on the runtime's completion thread, with no lock held. What it throws
  /// is logged and counted, and changes nothing.
  std::function<void(const MigrationProgress&)> on_progress;
};

/// Time by phase, summed over the chunks of a migration. Phases of different chunks overlap.
struct Phases {
  std::chrono::nanoseconds cache{0};   ///< Getting target chunks, from the cache or made new.
  std::chrono::nanoseconds wait{0};    ///< From asking work to stop until it stood.
  std::chrono::nanoseconds copy{0};    ///< First copy enqueued to last copy done.
  std::chrono::nanoseconds settle{0};  ///< Copying again what changed, while the work stands.
  std::chrono::nanoseconds unmap{0};   ///< Taking source chunks out of their slots.
  std::chrono::nanoseconds map{0};     ///< Putting target chunks in.
  std::chrono::nanoseconds grant{0};   ///< Giving every device access again.
  std::chrono::nanoseconds retire{0};  ///< Handing source chunks to the cache.
};

/// Why one chunk did not move. It is whole at its source unless `poisoned` says otherwise.
struct ChunkFailure {
  std::size_t offset = 0;  ///< Of the chunk in its allocation.
  std::string reason;
  bool poisoned = false;
};

/// A set of durations. The quantiles are right to about 5 %, `max` is exact.
struct DurationSummary {
  std::uint64_t count = 0;
  std::chrono::nanoseconds median{0};
  std::chrono::nanoseconds p99{0};
  std::chrono::nanoseconds max{0};
};

struct MigrationReport {
  Outcome outcome = Outcome::done;
  /// Where the range begins in the allocation, once rounded out to whole chunks.
  std::size_t offset = 0;
  std::size_t bytes_asked = 0;  ///< Of the range, rounded out to whole chunks.
  std::size_t bytes_moved = 0;  ///< Those of `bytes_asked` that changed place.
  /// Written by the application while a live copy ran, and copied again.
  std::size_t bytes_copied_twice = 0;
  /// Of `bytes_moved`, those of which a clean copy lay at the target: they were not copied.
  std::size_t bytes_remapped = 0;
  int chunks = 0;
  int chunks_moved = 0;
  int chunks_live = 0;  ///< Of those that moved.
  int copies_kept = 0;  ///< Of those that moved, chunks that left a clean copy behind.
  int retries = 0;      ///< Stops that were given up and tried again.
  /// Why stops were given up, and why chunks went another way than live; with how often.
  std::map<std::string, int> reasons;
  /// "gpu(0)->gpu(1)"; routes of a range that lay in several places are joined by ", ".
  std::string route;
  std::chrono::nanoseconds wall{0};
  /// The widest limit that its gates were given; see `RuntimeOptions::gate_limit`. Zero without.
  std::chrono::nanoseconds gate_limit{0};
  DurationSummary skew;   ///< Of gates: from the first stream's arrival to the last.
  DurationSummary stall;  ///< From the last arrival, or a hold's first stop, until work went on.
  std::chrono::nanoseconds dark_max{0};  ///< Longest time from a slot's unmap to its last grant.
  Phases phases;
  std::vector<ChunkFailure> failures;
};

class MigrationTask;

/// A migration under way. Movable; dropped, the migration goes on. Any thread.
class VMART_EXPORT Migration {
 public:
  Migration() = default;  ///< None: every call but assignment throws Error{invalid_argument}.
  explicit Migration(std::shared_ptr<MigrationTask> task) noexcept : task_(std::move(task)) {}

  /// Blocks until it has ended. Throws: what it failed with, Error{cancelled} if it was cancelled;
  /// the error has the report.
  MigrationReport wait() const;
  /// The same for at most `limit`; false if it goes on.
  bool wait_for(std::chrono::nanoseconds limit) const;
  bool done() const;
  /// Ends it at the next chunk border: chunks that have moved stay where they are. Does not wait.
  void cancel() const;
  /// What it has done so far. Throws nothing that the migration failed with.
  MigrationReport report() const;
  /// What it failed with; null while it runs and if it did not fail.
  std::exception_ptr error() const;
  /// `callback` runs on the runtime's completion thread once it has ended, with no lock held; at
  /// once, on that thread too, if it has. What it throws is logged and counted.
  void on_done(std::function<void()> callback) const;

 private:
  MigrationTask& task() const;
  std::shared_ptr<MigrationTask> task_;
};

/// One chunk about to move, or that has.
struct MoveEvent {
  void* pointer = nullptr;  ///< Of the allocation.
  std::size_t offset = 0;   ///< Of the chunk in it.
  std::size_t bytes = 0;
  Location from, to;
  std::uint64_t generation = 0;  ///< Of the chunk; grows with each move.
  bool moved = false;            ///< In `after`: it lies at `to` now; otherwise it has stayed.
  /// In `after`: it has no memory now, its contents were dropped; `from` and `to` are equal. The
  /// next event of the chunk is that of the memory that it gets when it is resumed.
  bool dropped = false;
};

/// For holders of registrations that name physical memory (NCCL, RDMA, IPC). Called on the thread
/// that moves, with nothing stopped. `before` that throws keeps the chunk where it is, and the move
/// fails with its text; what `after` throws is logged and counted.
struct MoveHooks {
  std::function<void(const MoveEvent&)> before;
  std::function<void(const MoveEvent&)> after;
};

}  // namespace vma::inline v1
