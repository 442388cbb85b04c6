#pragma once

#include <vma/location.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
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

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// What a move may stop: `attached` streams only, or (`hold`) everything in each context in use.
enum class StopScope { attached, hold };

/// How bytes cross: `stopped` stops the work first and copies then; `live` copies beside it.
enum class Mode { automatic, live, stopped };

enum class Outcome { done, partly, cancelled, failed };

struct MigrateOptions {
  /// The synchronous `migrate` holds and copies stopped; `live` throws Error{unsupported} there.
  Mode mode = Mode::automatic;
  StopScope scope = StopScope::hold;
  /// How long the work in the held contexts may take to come to rest before `busy` is thrown.
  /// Zero takes `RuntimeOptions::hold_limit`.
  std::chrono::milliseconds deadline{0};
  int priority = 0;
  /// All target memory is had before the first stop, so that want of memory moves nothing.
  bool reserve_first = false;
  /// The caller vouches that nothing runs that touches the range: no hold is taken. For drivers
  /// that have no hold, and for programs that have synchronised already.
  bool nothing_runs = false;
};

/// Time by phase, summed over the chunks of a migration. Phases of different chunks overlap.
struct Phases {
  std::chrono::nanoseconds cache{0};   ///< Getting target chunks, from the cache or made new.
  std::chrono::nanoseconds wait{0};    ///< From the first hold until the held work came to rest.
  std::chrono::nanoseconds copy{0};    ///< First copy enqueued to last copy done.
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

struct MigrationReport {
  Outcome outcome = Outcome::done;
  std::size_t bytes_asked = 0;  ///< The range, rounded out to chunks.
  std::size_t bytes_moved = 0;  ///< Those of `bytes_asked` that changed place.
  std::size_t bytes_copied_twice = 0;
  int chunks = 0;
  int chunks_moved = 0;
  int retries = 0;
  /// "gpu(0)->gpu(1)"; routes of a range that lay in several places are joined by ", ".
  std::string route;
  std::chrono::nanoseconds wall{0};
  std::chrono::nanoseconds skew_max{0};
  std::chrono::nanoseconds stall_max{0};  ///< Longest time that a hold stood.
  std::chrono::nanoseconds dark_max{0};   ///< Longest time from a slot's unmap to its last grant.
  Phases phases;
  std::vector<ChunkFailure> failures;
};

}  // namespace vma::inline v1
