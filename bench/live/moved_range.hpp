#pragma once

#include "bench/harness/hang_alarm.hpp"
#include "bench/live/move_tally.hpp"
#include "bench/live/writer_kernel.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// Which tiles of 256 KiB of the moving range the writers write to. They are spread evenly, and all
/// words of a tile are equally likely.
struct DirtyTiles {
  std::uint64_t tiles = 16;
  std::uint64_t touches = 4;  ///< Tiles per launch.

  /// Each launch writes to this share of all tiles (0 to 1).
  static DirtyTiles share_of(double share, std::uint64_t bytes);
};

/// One allocation that moves in the background while writers add to its words.
class MovedRange {
 public:
  /// Uses the largest possible chunks up to `chunk_bytes`. Throws: Error.
  MovedRange(Runtime& runtime, Place home, std::uint64_t bytes,
             std::uint64_t chunk_bytes = std::uint64_t{256} << 20);
  ~MovedRange();
  MovedRange(const MovedRange&) = delete;
  MovedRange& operator=(const MovedRange&) = delete;

  void* pointer() const noexcept { return pointer_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  Place place() const noexcept { return home_; }
  WritePlaces places(const DirtyTiles& dirty) const;

  /// Allocates the target chunks of the whole range at `to`.
  void reserve(Place to);
  /// Starts a move in the background. `home` changes to `to` once `finish` is called.
  Migration start(Place to, const MigrateOptions& options);
  /// Waits. Returns false if the move ended in `busy`, which is counted: chunks may then be at both
  /// places, and another move to `to` moves the rest. Throws: any other error of the move.
  bool finish(const Migration& migration, Place to, MoveTally& tally);
  bool move(Place to, const MigrateOptions& options, MoveTally& tally) {
    return finish(start(to, options), to, tally);
  }
  /// Throws: std::runtime_error unless the words have their initial values plus what writers added.
  void check(std::uint64_t added);

 private:
  std::uint64_t sum();

  Runtime& runtime_;
  const std::uint64_t bytes_;
  const std::uint64_t chunk_bytes_;
  Place home_;
  void* pointer_;
  std::uint64_t first_sum_ = 0;
  HangAlarm hang_alarm_;
};

/// Moves back and forth between two places, starting where the range is, until `moves_max` attempts
/// were made or `seconds` have passed; at least twice. Before each move it rests.
MoveTally move_to_and_fro(MovedRange& range, Place one, Place other, const MigrateOptions& options,
                          int moves_max, double seconds,
                          std::chrono::milliseconds rest = std::chrono::milliseconds(0));

}  // namespace vma
