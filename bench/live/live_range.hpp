#pragma once

#include "bench/hang_alarm.hpp"
#include "bench/live/move_tally.hpp"
#include "bench/live/writer_kernel.hpp"

#include <vma/runtime.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// What a writer writes to of the range that moves: so much of its tiles of 256 KiB, spread evenly,
/// each word of a tile as often as any other.
struct DirtyTiles {
  std::uint64_t tiles = 16;
  std::uint64_t touches = 4;  ///< Tiles a launch.

  /// Each launch writes to this share of all tiles, 0 to 1.
  static DirtyTiles share_of(double share, std::uint64_t bytes);
};

/// One allocation that moves in the background while writers add to its words.
class LiveRange {
 public:
  /// Chunks as large as they may be. Throws: Error.
  LiveRange(Runtime& runtime, Location home, std::uint64_t bytes,
            std::uint64_t chunk_bytes = std::uint64_t{256} << 20);
  ~LiveRange();
  LiveRange(const LiveRange&) = delete;
  LiveRange& operator=(const LiveRange&) = delete;

  void* pointer() const noexcept { return pointer_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  Location home() const noexcept { return home_; }
  WritePlaces places(const DirtyTiles& dirty) const;

  /// Chunks for the whole range lie ready at `to` afterwards.
  void reserve(Location to);
  /// In the background. The range counts as at `to` once `finish` has been called.
  Migration start(Location to, const MigrateOptions& options);
  /// Waits. False if the move ended in `busy`, which is tallied as such: then chunks may lie in
  /// both places, and another move to `to` brings the rest. Throws: what else it failed with.
  bool finish(const Migration& migration, Location to, MoveTally& tally);
  bool move(Location to, const MigrateOptions& options, MoveTally& tally) {
    return finish(start(to, options), to, tally);
  }
  /// Throws: std::runtime_error unless the words are those of the beginning and what writers added.
  ///
  /// After moves under holds it only says what is missing: work that another thread submits between
  /// a hold's two driver calls for a context is not held (`Hold`), and a busy machine makes that
  /// long.
  void check(std::uint64_t added);

 private:
  std::uint64_t sum();

  Runtime& runtime_;
  const std::uint64_t bytes_;
  const std::uint64_t chunk_bytes_;
  Location home_;
  bool was_held_ = false;  // It has moved under a hold.
  void* pointer_;
  std::uint64_t first_sum_ = 0;
  HangAlarm hang_alarm_;
};

/// Moves to and fro between two places, from where the range lies, until `moves_max` have been
/// tried or `seconds` have passed; at least twice.
MoveTally move_to_and_fro(LiveRange& range, Location one, Location other,
                          const MigrateOptions& options, int moves_max, double seconds);

}  // namespace vma
