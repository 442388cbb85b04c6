#pragma once

#include <vma/export.hpp>
#include <vma/place.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma::inline v1 {

/// A range of bytes of one allocation that lies at one place. Adjacent ranges at one place are
/// merged.
struct Extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  Place at;
  /// The largest generation of its chunks. A chunk's generation grows by one with each move.
  std::uint64_t generation = 0;
  /// True if the extent has no memory because its contents were dropped; `at` is where they lay.
  /// `Runtime::resume` ends that.
  bool dropped = false;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// What a move may stop. `attached`: the work that uses the memory, beside which bytes are copied
/// before; only the attached streams if a gate is to be had soon. `hold`: everything, once, for as
/// long as the bytes are copied. Both suspend the process's work where that can be had.
enum class StopScope { attached, hold };

/// What stops work so that memory can be switched. `gate`: the attached streams, each where it
/// arrives. `hold`: each context in use, once what was submitted to it has finished. `suspension`:
/// all work of the process, wherever it is; nothing is waited for.
enum class StopKind { none, gate, hold, suspension };

/// "gate" and so on.
VMART_EXPORT std::string_view to_string(StopKind kind) noexcept;

/// What a program enqueues on a stream that it attaches.
///
///                  a gate stops it by   with a thread that keeps freeing device memory
///   any            a kernel launch      moves may fail with `busy`: the driver delays launches
///   no_graphs      a memory operation   moves usually succeed
///
/// A gate may lose the writes of a graph that is launched on a `no_graphs` stream while the gate
/// closes: driver 580 does not order the two. This includes graphs that kernels launch. Streams of
/// green contexts and programmatic dependent launches are ordinary work.
enum class StreamWork { any, no_graphs };

/// How bytes are copied. `stopped`: stops the work, then copies. `live`: copies while the work
/// runs, then stops it and copies again only what has changed. `automatic` chooses for each chunk
/// the mode that is likely to stall streams for less time.
///
/// A chunk can move live from a GPU to any place that this GPU can reach (`vmart doctor` shows what
/// each GPU reaches). It cannot move live from a host node, or to a place that the GPU cannot
/// reach: no processor that can access both sides is fast enough to find what changed. `automatic`
/// moves such chunks stopped. `live` promises that streams never stall for a whole copy, so it
/// throws Error{unsupported} for them before it stops anything for the chunk. A chunk with a clean
/// copy at the target needs no copy and moves in every mode.
enum class Mode { automatic, live, stopped };

enum class Outcome { done, partly, cancelled, failed };

/// Progress of a migration, for `MigrateOptions::on_progress`.
struct MigrationProgress {
  int chunks = 0;
  int chunks_moved = 0;
  std::size_t bytes_asked = 0;
  std::size_t bytes_moved = 0;
};

struct MigrateOptions {
  /// The synchronous `migrate` copies while all is stopped, unless `scope` is `attached`.
  Mode mode = Mode::automatic;
  /// Default: `hold` for `migrate`, `attached` for `migrate_async`.
  std::optional<StopScope> scope{};
  /// How long to wait for the work to stop before the move fails with `busy`. For gates: how long
  /// each chunk is tried, and thus the longest backlog a stream may have. Waiting caused by
  /// `RuntimeOptions::stall_budget` does not count. Zero means `RuntimeOptions::hold_limit` for
  /// holds, and for gates 30 s: a stream that has not reached its gate stops nothing.
  std::chrono::milliseconds deadline{0};
  /// How long one stop may take (the stall, see `MigrationReport`): as many chunks share it as are
  /// predicted to be settled and switched within it, but at least one.
  /// Default: `RuntimeOptions::max_stall`.
  std::optional<std::chrono::microseconds> max_stall{};
  /// How much of a GPU the kernels of live copies may take from the application, in percent: those
  /// that copy, at the source; between GPUs, where copy engines copy, those that digest, at the
  /// target. With 100 they are as fast as they can be; with less they take longer, and the
  /// application loses less.
  /// Default: `RuntimeOptions::copy_share_percent`.
  std::optional<int> copy_share_percent{};
  /// Among moves that wait for the same route, the one with the highest priority goes first.
  int priority = 0;
  /// Allocates all target memory before stopping anything; if that fails, nothing moves.
  bool reserve_first = false;
  /// Of several requests: allocates the target memory of all before stopping anything. If that
  /// fails, or if one of them may not move when the call begins, nothing moves. Of one request, it
  /// is `reserve_first`.
  bool all_or_nothing = false;
  /// The caller guarantees that no running work touches the range, so nothing is stopped. For
  /// drivers without holds, and for programs that have already synchronised.
  bool nothing_runs = false;
  /// Waits for a pinned chunk until `deadline`. Otherwise the move fails with `pinned`.
  bool wait_for_pins = false;
  /// Live moves compare the bytes themselves instead of digests. Slower.
  bool paranoid = false;
  /// When a chunk of a read-only allocation (`Runtime::read_only`) moves from host memory to HBM,
  /// keeps the host memory and its bytes. If the allocation stays read-only, a move back reuses
  /// that memory and copies nothing. The copy is dropped when the memory is needed.
  bool keep_clean_copy = false;
  /// Called after each chunk on the runtime's completion thread, with no lock held; with the sum
  /// over all requests, if there are several. The last call may follow shortly after the migration
  /// has ended; of a synchronous call with a hold, all come before it returns. An exception is
  /// logged and counted, and has no other effect.
  std::function<void(const MigrationProgress&)> on_progress{};
};

/// Time by phase, summed over the chunks of a migration. Phases of different chunks overlap.
struct Phases {
  std::chrono::nanoseconds cache{0};   ///< Getting target chunks, from the cache or newly created.
  std::chrono::nanoseconds wait{0};    ///< From the request to stop until all work has stopped.
  std::chrono::nanoseconds copy{0};    ///< From the first copy enqueued to the last copy done.
  std::chrono::nanoseconds settle{0};  ///< Copying again what changed, while the work is stopped.
  std::chrono::nanoseconds unmap{0};   ///< Unmapping source chunks.
  std::chrono::nanoseconds map{0};     ///< Mapping target chunks.
  std::chrono::nanoseconds grant{0};   ///< Granting access to every device.
  std::chrono::nanoseconds retire{0};  ///< Returning source chunks to the cache.
};

/// Why one chunk did not move. The chunk is intact at its source unless `poisoned` is true.
struct ChunkFailure {
  std::size_t offset = 0;  ///< Of the chunk within its allocation.
  std::string reason;
  bool poisoned = false;
};

/// Summary of a set of durations. The quantiles are accurate to about 5 %; `max` is exact.
struct DurationSummary {
  std::uint64_t count = 0;
  std::chrono::nanoseconds median{0};
  std::chrono::nanoseconds p99{0};
  std::chrono::nanoseconds max{0};
};

struct MigrationReport {
  Outcome outcome = Outcome::done;
  /// Start of the range within the allocation, after extending it to whole chunks.
  std::size_t offset = 0;
  std::size_t bytes_asked = 0;  ///< Size of the range, extended to whole chunks.
  std::size_t bytes_moved = 0;  ///< Part of `bytes_asked` that changed place.
  /// Bytes that the application wrote during a live copy, so they were copied again.
  std::size_t bytes_copied_twice = 0;
  /// Part of `bytes_moved` with a clean copy at the target, so it was not copied.
  std::size_t bytes_remapped = 0;
  int chunks = 0;
  int chunks_moved = 0;
  int chunks_live = 0;  ///< Chunks that moved live.
  int copies_kept = 0;  ///< Chunks that moved and left a clean copy behind.
  int retries = 0;      ///< Stops that were given up and retried.
  /// Why stops were given up, and why chunks did not move live, with counts.
  std::map<std::string, int> reasons;
  /// "gpu(0)->gpu(1)". If the range lay in several places, their routes are joined by ", ".
  std::string route;
  std::chrono::nanoseconds wall{0};
  /// The largest time limit of its gates; see `RuntimeOptions::gate_limit`. Zero if it had no
  /// gates.
  std::chrono::nanoseconds gate_limit{0};
  /// What stopped the work; the last one if there were several. `none` if nothing was stopped.
  StopKind stop = StopKind::none;
  DurationSummary skew;  ///< Of gates: from the first stream's arrival to the last.
  /// From a gate's last arrival, a hold's first stop, or the beginning of a suspension until the
  /// work continues.
  DurationSummary stall;
  /// Other processes that have imported the memory and switched with it. In a total, a process
  /// counts for each allocation.
  int importers = 0;
  /// The longest time that one of them was stopped for it.
  std::chrono::nanoseconds importer_stall{0};
  std::chrono::nanoseconds dark_max{0};  ///< Longest time from a slot's unmap to its last grant.
  Phases phases;
  std::vector<ChunkFailure> failures;
};

/// Goes around driver calls that enqueue copies or fills of memory that may move meanwhile: in
/// another thread, in the background, or by a policy. The runtime puts such scopes into the
/// program's calls by itself, unless VMART_COPY_GUARDS=0; a program needs its own for functions of
/// the driver that lie on its heap since before the runtime opened, and for copies in captures.
///
///     {
///       const vma::CopyScope scope;
///       cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream);
///     }
///
/// The driver looks the addresses of such calls up when they are enqueued. While a chunk is
/// switched, it finds nothing there: the call fails with cudaErrorInvalidValue, and one with
/// cudaMemcpyDefault crashes or hangs; so does, later, the launch of a graph of captured copies.
///
/// Keep it short: a move waits for scopes of all threads to end. Do not call the library inside,
/// nor allocate or touch its memory by the CPU. Scopes of one thread nest. Moves with
/// `nothing_runs` wait for none.
class VMART_EXPORT CopyScope {
 public:
  /// Blocks: while work is stopped so that a chunk can be switched; and for at most 50 ms before,
  /// if a stop has found scopes open.
  CopyScope() noexcept;
  ~CopyScope();
  CopyScope(const CopyScope&) = delete;
  CopyScope& operator=(const CopyScope&) = delete;
};

class MigrationTask;

/// Handle of a running migration. Movable. The migration continues if the handle is destroyed.
/// Thread-safe.
class VMART_EXPORT Migration {
 public:
  /// Refers to no migration: every call except assignment throws Error{invalid_argument}.
  Migration() = default;
  explicit Migration(std::shared_ptr<MigrationTask> task) noexcept : task_(std::move(task)) {}

  /// Blocks until the migration has ended. Throws: the error that it failed with; Error{cancelled}
  /// if it was cancelled. The error contains the report.
  MigrationReport wait() const;
  /// Waits for at most `limit`; returns false if the migration is still running.
  bool wait_for(std::chrono::nanoseconds limit) const;
  bool done() const;
  /// Ends the migration at the next chunk boundary: chunks that have moved stay at the target. Does
  /// not wait.
  void cancel() const;
  /// What the migration has done so far. Does not throw the migration's own error.
  MigrationReport report() const;
  /// The migration's error; null while it runs or if it did not fail.
  std::exception_ptr error() const;
  /// Calls `callback` on the runtime's completion thread when the migration has ended, with no lock
  /// held; immediately, but on the same thread, if it has already ended. An exception is logged and
  /// counted.
  void on_done(std::function<void()> callback) const;

 private:
  MigrationTask& task() const;
  std::shared_ptr<MigrationTask> task_;
};

/// One chunk that is about to move or has moved.
struct MoveEvent {
  void* pointer = nullptr;  ///< Of the allocation.
  std::size_t offset = 0;   ///< Of the chunk within the allocation.
  std::size_t bytes = 0;
  Place from, to;
  std::uint64_t generation = 0;  ///< Of the chunk; grows with each move.
  bool moved = false;            ///< In `after`: true if it now lies at `to`, false if it stayed.
  /// In `after`: the chunk has no memory because its contents were dropped; `from` and `to` are
  /// equal. The chunk's next event describes the memory that it gets when it is resumed.
  bool dropped = false;
};

/// For programs that hold registrations of physical memory (NCCL, RDMA, IPC). The hooks run on the
/// moving thread, with nothing stopped. If `before` throws, the chunk stays where it is and the
/// move fails with that text. If `after` throws, the exception is logged and counted.
struct MoveHooks {
  std::function<void(const MoveEvent&)> before;
  std::function<void(const MoveEvent&)> after;
};

/// What happens to the bytes of parked memory. `drop` moves none of them: the memory goes back to
/// the driver at once, and `resume` returns zeros, or undefined bytes if that is enough.
enum class ParkContents { keep, drop };

/// How `Runtime::park` and `Runtime::resume` move.
struct ParkOptions {
  /// The host node that stores the bytes. Default: the node closest to each GPU. `resume` ignores
  /// it.
  std::optional<Place> to;
  /// What to stop, and for how long. A hold, the default, is fastest: everything is stopped once,
  /// and all chunks are copied. `all_or_nothing` is ignored: what may move does.
  MigrateOptions how{};
  /// Whether the bytes are dropped. `resume` ignores it: each chunk comes back as it was parked.
  ParkContents contents = ParkContents::keep;
  /// Whether `resume` fills memory whose contents were dropped with zeros. Otherwise its contents
  /// are undefined, which is faster. `park` ignores it.
  bool zeroed = true;
};

/// What `Runtime::park` or `Runtime::resume` did.
struct ParkReport {
  /// An allocation with bytes that did not move as requested.
  struct Stayed {
    void* pointer = nullptr;
    std::size_t bytes = 0;  ///< Bytes that did not move.
    std::string reason;
  };
  std::size_t allocations = 0;  ///< Allocations examined.
  std::size_t bytes_moved = 0;  ///< Out of HBM, or back. Includes the two values below.
  /// Part of `bytes_moved`: chunks whose contents `park` dropped, or that `resume` brought back as
  /// zeros.
  std::size_t bytes_dropped = 0;
  /// Part of `bytes_moved`: brought by `resume` to another GPU because the original one was full.
  std::size_t bytes_elsewhere = 0;
  std::chrono::nanoseconds wall{0};
  std::vector<Stayed> stayed;
};

}  // namespace vma::inline v1
