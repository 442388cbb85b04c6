#pragma once

#include "interpose/driver_library.hpp"
#include "interpose/waits/program_exit.hpp"
#include "interpose/waits/finished_work.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>

namespace vma::interpose {

/// The streams and contexts of the program, and which of them are attached to vmart. A context's
/// legacy stream stands for its blocking streams and its per-thread ones; a non-blocking stream is
/// attached when work is first enqueued on it, because frameworks create many that they never use.
/// If work cannot be attached, no memory moves any more (`ProgramMemory::keep_in_place`). Any
/// thread.
class ProgramStreams {
 public:
  /// Never destroyed, like the streams.
  static ProgramStreams& get() noexcept;

  /// Exists around a call that enqueues work on the stream, and attaches it first if need be.
  class Enqueue {
   public:
    explicit Enqueue(CUstream stream) noexcept;
    /// Attaches the context if it could not be attached before its first work.
    ~Enqueue();
    Enqueue(const Enqueue&) = delete;
    Enqueue& operator=(const Enqueue&) = delete;

   private:
    const ProgramExit::Call call_;
    const CUstream stream_;
    std::atomic<int>* users_ = nullptr;
  };

  /// Whether the stream captures, or cannot be asked.
  static bool captures(const DriverLibrary& driver, CUstream stream) noexcept;
  /// The stream is about to begin or to join a capture, during which nobody can follow what it has
  /// still to do: another stream waits for that from now on.
  void before_capture(CUstream stream) noexcept;
  /// The context of the calling thread. Returns false without one.
  static bool current(CUcontext& context, int& device) noexcept;

  /// vmart has memory of the program from now on: attaches all known contexts and that of the
  /// calling thread.
  void begin() noexcept;
  /// The program has created the stream.
  void created(CUstream stream, unsigned flags) noexcept;
  /// The stream's name in `FinishedWork`. A built-in stream is that of the current context.
  static FinishedWork::StreamName name_of(CUstream stream) noexcept;
  void note_enqueued(CUstream stream) noexcept;
  /// The stream is about to be destroyed. Moves wait for its work nonetheless.
  void before_destruction(CUstream stream) noexcept;
  /// The context is current for the calling thread.
  void note_current(CUcontext context) noexcept;
  /// The program has created the context, which is current.
  void created(CUcontext context) noexcept;
  /// Whether the program has created it. It does not own a primary context.
  bool owns(CUcontext context) noexcept;
  /// Detaches idle streams, so that a move need not stop them. One that came back at once is left
  /// attached for a while.
  void detach_unused() noexcept;
  /// Whether vmart has memory of the program.
  bool begun() const noexcept { return begun_.load(std::memory_order_acquire); }
  /// The context is about to be destroyed. Blocks: for its work.
  void before_destruction(CUcontext context) noexcept;

  /// As long as this exists, no thread enqueues, and no work runs. A thread that would enqueue
  /// waits.
  class Standstill {
   public:
    /// Waits for threads that enqueue, and then for the work of all contexts; not while a stream
    /// captures. Requires: the calling thread does not enqueue, and holds no lock that a thread
    /// that does may want. Blocks: half of the limit at most.
    explicit Standstill(std::chrono::nanoseconds limit) noexcept;
    ~Standstill();
    Standstill(const Standstill&) = delete;
    Standstill& operator=(const Standstill&) = delete;
    /// Whether all stands; within the limit.
    bool reached() const noexcept { return reached_ && std::chrono::steady_clock::now() < end_; }

   private:
    bool await_all_work(std::chrono::steady_clock::time_point until) const noexcept;

    const std::chrono::steady_clock::time_point end_;
    const bool reached_;
  };

  /// Destroys the program's streams of a context that lives on.
  void destroy_streams_of(CUcontext context) noexcept;

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class State { unknown, blocking, detached, attached, leaving };
  struct alignas(64) Stream {  // Threads count their work in different ones.
    std::atomic<CUstream> handle = nullptr;
    std::atomic<State> state = State::unknown;
    std::atomic<int> users = 0;
    CUcontext context = nullptr;
    Time left_at;      ///< Was detached because it was idle; the epoch if never.
    Time stays_until;  ///< It is used too often to be detached whenever it is idle.
  };
  struct Context {
    CUcontext handle = nullptr;
    bool created = false;  ///< By the program.
    bool attached = false;
    int streams = 0;  ///< Attached ones besides the legacy stream.
    /// An attached stream that waits for the work of streams that were destroyed.
    CUstream successor = nullptr;
  };
  static constexpr std::size_t streams_max = 1 << 13;

  ProgramStreams() = default;

  static std::size_t first_place(CUstream stream) noexcept;
  std::atomic<int>& built_in_users() noexcept;
  void enter(std::atomic<int>& users) noexcept;
  Stream* find(CUstream stream) noexcept;
  Stream* find_or_insert(CUstream stream) noexcept;
  void attach_if_needed(Stream& stream) noexcept;
  bool query_kind(Stream& stream) noexcept;
  void detach_from(Stream& stream) noexcept;
  void forget(Stream& stream) noexcept;
  void keep_work_of(Stream& stream, const char* if_it_cannot) noexcept;
  bool hand_over(Stream& stream, Context& context) noexcept;
  void detach_idle(Context& context) noexcept;
  void detach_if_idle(Stream& stream, Context& context) noexcept;
  Context* context_of(CUcontext handle) noexcept;
  bool attach_legacy(Context& context) noexcept;
  void attach_current(bool work_is_enqueued) noexcept;
  void give_up(const char* why) noexcept;

  alignas(64) std::atomic<bool> begun_ = false;
  std::atomic<int> standstills_ = 0;
  // Contexts whose legacy stream could not be attached yet: CUDA's runtime makes a primary context
  // current before it can be used.
  std::atomic<int> unattached_ = 0;
  std::atomic<unsigned> generation_ = 0;  // Grows when a context is destroyed: handles return.
  // Open addressing, read without a lock. A handle of 1 marks a place whose stream was destroyed.
  std::array<Stream, streams_max> streams_;
  // Threads that enqueue on a built-in stream. They count in different ones.
  struct alignas(64) Enqueuing {
    std::atomic<int> threads = 0;
  };
  std::array<Enqueuing, 16> built_in_users_;

  std::mutex mutex_;  // For all that follows, for insertions, and for changes of a stream's state.
  std::list<Context> contexts_;
};

}  // namespace vma::interpose
