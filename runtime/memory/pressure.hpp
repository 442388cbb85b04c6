#pragma once

#include "base/clock.hpp"
#include "base/listener.hpp"

#include <vma/place.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace vma {

/// Asks a presser to make room at a full place before a call ends in `out_of_memory`. Any thread.
class MemoryPressure {
 public:
  enum class Answer {
    nothing_leaves,
    /// Other threads move or free memory. An allocation asks again; a move does not, since it may
    /// be what they wait for.
    others_at_work,
    some_left,
  };
  /// Called with the number of bytes lacking at `at`: makes room by `until` if it can. Runs on the
  /// thread that needs the memory, with no lock and no turn held except the move claims and
  /// `operations()` of the allocations that move, if any do. An exception is logged and counts as
  /// `nothing_leaves`.
  using Presser = std::function<Answer(Place at, std::uint64_t size_bytes, TimePoint until)>;

  /// `limit` bounds how long one call waits for room; zero never asks the presser.
  MemoryPressure(Clock& clock, std::chrono::nanoseconds limit) : clock_(clock), limit_(limit) {}

  /// An empty presser removes it. Blocks: while the former runs.
  void set(Presser presser);

  /// The number of moves that wait for room now. As many more may run: one of them may make the
  /// room.
  std::size_t waiting() const noexcept { return waiting_; }

  /// One call's need for room, for `Memory::with_room`: its time limit starts when it first asks.
  /// One thread.
  class Want {
   public:
    enum class Asks {
      never,   ///< Moves that make room themselves would wait for each other.
      a_move,  ///< Only at a GPU, since nothing makes room for moves at a host node.
      an_allocation,
    };
    Want(MemoryPressure& pressure, Asks asks) : pressure_(pressure), asks_(asks) {}
    /// Asks for so many bytes; whether to retry. Blocks: for the presser, within the limit.
    /// Requires: the caller holds no turn, and no copier.
    bool operator()(Place at, std::uint64_t size_bytes);
    bool asks_for(Place at) const noexcept {
      return asks_ == Asks::an_allocation || (asks_ == Asks::a_move && at.kind == Place::Kind::gpu);
    }

   private:
    MemoryPressure& pressure_;
    const Asks asks_;
    TimePoint until_ = never;
  };

 private:
  void nap_until(TimePoint time);

  Clock& clock_;
  const std::chrono::nanoseconds limit_;
  Listener<Presser> presser_;
  std::atomic<std::size_t> waiting_{0};
};

}  // namespace vma
