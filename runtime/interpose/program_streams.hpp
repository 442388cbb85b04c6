#pragma once

#include "interpose/driver_library.hpp"
#include "interpose/process.hpp"
#include "interpose/refusals.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace vma::interpose {

/// The contexts and streams of the program, and which threads enqueue on them. Moves need to know
/// of no stream: they suspend all work, or hold all contexts. Any thread.
class ProgramStreams {
 public:
  /// `stream_ends` is called with each stream that is about to be destroyed, and with the built-in
  /// ones of a context that is.
  ProgramStreams(Refusals& refusals, void (*stream_ends)(CUstream) noexcept) noexcept
      : refusals_(refusals), stream_ends_(stream_ends) {}

  /// Exists around a call that enqueues work. Scopes nest; the outermost one counts.
  class Enqueue {
   public:
    explicit Enqueue(ProgramStreams& streams) noexcept;
    ~Enqueue();
    Enqueue(const Enqueue&) = delete;
    Enqueue& operator=(const Enqueue&) = delete;

   private:
    const ProgramExit::Call call_;
    ProgramStreams& streams_;
    const bool counted_;
  };

  /// Whether the stream captures, or cannot be asked.
  static bool captures(const DriverLibrary& driver, CUstream stream) noexcept;
  /// The context of the calling thread. Returns false without one.
  static bool current(CUcontext& context, int& device) noexcept;
  /// The GPU of the stream, where stream zero is one of the current context. If the driver does not
  /// tell, it is that of the current context; none without one.
  static std::optional<int> device_of(CUstream stream) noexcept;

  /// vmart has memory of the program from now on.
  void begin() noexcept;
  /// Whether it has.
  bool begun() const noexcept { return begun_.load(std::memory_order_acquire); }

  /// The program has created the stream, or is about to destroy it.
  void created(CUstream stream) noexcept;
  void before_destruction(CUstream stream) noexcept;
  /// The program has created a green context, whose work a hold of its GPU's context leaves out.
  void note_green_context() noexcept { has_green_contexts_ = true; }
  /// The context is current for the calling thread.
  void note_current(CUcontext context) noexcept;
  /// The program has created the context, which is current. False without memory for the list:
  /// then holds would miss its work.
  bool created(CUcontext context) noexcept;
  /// Whether the program has created it. It does not own a primary context.
  bool owns(CUcontext context) noexcept;
  /// The context is about to be destroyed. Blocks: for its work.
  void before_destruction(CUcontext context) noexcept;
  /// Destroys the program's streams of a context that lives on.
  void destroy_streams_of(CUcontext context) noexcept;

  /// As long as this exists, no thread enqueues, and no work runs. A thread that would enqueue
  /// waits.
  class Standstill {
   public:
    /// Waits for threads that enqueue, and then for the work of all contexts; not while a stream
    /// captures. Requires: the calling thread does not enqueue, and holds no lock that a thread
    /// that does may want. Blocks: half of the limit at most.
    Standstill(ProgramStreams& streams, std::chrono::nanoseconds limit) noexcept;
    ~Standstill();
    Standstill(const Standstill&) = delete;
    Standstill& operator=(const Standstill&) = delete;
    /// Whether all stands; within the limit.
    bool reached() const noexcept { return reached_ && std::chrono::steady_clock::now() < end_; }

   private:
    bool await_all_work(std::chrono::steady_clock::time_point until) const noexcept;

    ProgramStreams& streams_;
    const std::chrono::steady_clock::time_point end_;
    const bool held_;
    const bool reached_;
  };

 private:
  using Time = std::chrono::steady_clock::time_point;

  const char* hold_enqueues(std::int64_t limit_ns) noexcept;
  std::atomic<int>& threads_here() noexcept;
  void enter(std::atomic<int>& threads) noexcept;
  bool hold_back(Time until) noexcept;
  void let_go() noexcept;
  std::vector<CUcontext> contexts();

  Refusals& refusals_;
  void (*const stream_ends_)(CUstream) noexcept;
  alignas(64) std::atomic<bool> begun_ = false;
  std::atomic<bool> has_green_contexts_ = false;
  std::atomic<int> held_back_ = 0;        // How many want no thread to enqueue.
  std::atomic<unsigned> generation_ = 0;  // Grows when a context is destroyed: handles return.
  // Threads that enqueue. They count in different ones.
  struct alignas(64) Enqueuing {
    std::atomic<int> threads = 0;
  };
  std::array<Enqueuing, 64> enqueuing_;

  std::mutex mutex_;                       // For all that follows.
  std::map<CUcontext, bool> contexts_;     // Whether the program has created it.
  std::map<CUstream, CUcontext> streams_;  // That the program has created.
};

}  // namespace vma::interpose
