#pragma once

#include "base/process_exit.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vma::interpose {

/// What the program has waited for. A stream that vmart stops to move memory is not ready, though
/// the program has waited for all of its work and enqueued nothing since. Any thread; what a thread
/// has waited for is known to that thread.
class FinishedWork {
 public:
  static FinishedWork& get() noexcept { return only<FinishedWork>(); }

  /// A stream; a built-in one, whose handle all contexts share, by its context.
  struct StreamName {
    CUstream stream = nullptr;
    CUcontext context = nullptr;
    bool operator==(const StreamName&) const = default;
  };

  /// A call that enqueued on the stream is about to return. Work on a built-in stream counts for
  /// all built-in streams of its context. Costs next to nothing as long as no thread waits and the
  /// thread enqueues on one stream.
  void note_enqueued(const StreamName& name) noexcept;
  /// A wait begins. Returns its number, for when it has ended.
  std::uint64_t begin_wait() noexcept { return waits_.fetch_add(1) + 1; }
  /// The calling thread has waited for all work that was on the stream, or on all streams of the
  /// context.
  void end_wait(std::uint64_t number, const StreamName& name) noexcept;
  void end_wait_for(std::uint64_t number, CUcontext context) noexcept;
  /// Whether the calling thread has waited for the stream, or for its context, since the stream's
  /// last work.
  bool is_all_work_of(const StreamName& name, CUcontext context) noexcept;

 private:
  friend Immortal<FinishedWork>;
  FinishedWork() = default;

  struct Place {
    std::atomic<std::uint64_t> key = 0;
    std::atomic<std::uint64_t> last_work = 0;  ///< How many waits had begun after it.
  };
  static constexpr std::size_t places_count = 1 << 13;
  Place& place_of(const StreamName& name) noexcept;

  std::atomic<std::uint64_t> waits_ = 1;
  // Open addressing. Handles are never removed; those that find no place share one, and are taken
  // for busier than they are.
  std::array<Place, places_count> places_;
  Place shared_;
};

}  // namespace vma::interpose
