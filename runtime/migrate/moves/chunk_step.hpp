#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"

#include <vma/location.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace vma {

/// What became of one chunk's move just now.
struct ChunkStep {
  enum class Kind {
    begun,     ///< From now on memory is had and bytes are copied.
    stood,     ///< All streams stood still for it, from `begin` to `end`.
    moved,     ///< It lies at `to`; the move lasted from `begin` to `end`.
    stayed,    ///< It lies at `from`, for the reason `why`.
    restored,  ///< Its contents were dropped at `from`; it has memory at `to` again, the same
               ///< maybe.
  };
  Kind kind = Kind::begun;
  TimePoint begin{0}, end{0};
  Address address{};  ///< Of the chunk.
  std::uint64_t bytes = 0;
  Location from, to;
  std::chrono::nanoseconds stall{0};  ///< That streams stood for it by now.
  /// Of `stood`: from the first stream's arrival to the last, before `begin`; how many they are.
  std::chrono::nanoseconds skew{0};
  std::uint32_t streams = 0;
  TimePoint switched{0};        ///< Of `moved` and `restored`: its slot showed the new memory.
  std::uint64_t operation = 0;  ///< `MoveTerms::operation`.
  bool by_policy = false;       ///< `MoveTerms::by_policy`.
  std::string why;
};

/// Told by the thread that moves, which may hold the allocation's `operations()`: it may only take
/// notes. What it throws is logged.
using ChunkWatcher = std::function<void(const ChunkStep&)>;

}  // namespace vma
