#pragma once

#include <vma/policy.hpp>
#include <vma/snapshot.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <vector>

namespace vma::inline v1 {

/// A predicted use of a chunk. Uses that follow each other closely are one.
struct NextUse {
  Time at{0};
  PlaceId device{};
  double passes = 0;  ///< Over the chunk's bytes.
};

/// Whether predictions are to be followed: once most of them have come true, until fewer than half
/// do. The last eight or so count.
class TrackRecord {
 public:
  void note(bool came_true) {
    share_ += ((came_true ? 1 : 0) - share_) * weight;
    if (judged_ < judged_least) ++judged_;
    if (judged_ >= judged_least && share_ >= good) trusted_ = true;
    if (share_ < bad) trusted_ = false;
  }
  bool trusted() const noexcept { return trusted_; }

 private:
  static constexpr double weight = 1.0 / 8;
  static constexpr double good = 0.75, bad = 0.5;
  static constexpr std::size_t judged_least = 8;

  double share_ = 0.5;
  std::size_t judged_ = 0;
  bool trusted_ = false;
};

/// Predicted uses in the order of their times, and then of their chunks, in sorted blocks (a B+
/// tree of two levels, after Bayer and McCreight, 1972). Each tick walks through the first
/// thousand: in a block these are adjacent, in a tree of nodes each waits for memory.
class UseOrder {
 public:
  struct Use {
    Time at{0};
    ChunkId chunk{};
    PlaceId device{}, lies_at{};   ///< No part of the order.
    std::uint16_t pays_below = 0;  ///< Likewise.
  };

  /// Requires: no use of the chunk at that time is there; for `erase`: one is.
  void insert(const Use& use);
  void erase(Time at, ChunkId chunk);

  /// Calls `body`, the nearest first, until it returns false. It must not change the order.
  template <typename Body>  // bool body(const Use&)
  void nearest(Body&& body) const {
    for (const Block& block : blocks_)
      for (const Use& use : block)
        if (!body(use)) return;
  }
  /// The same, the furthest first.
  template <typename Body>  // bool body(const Use&)
  void furthest(Body&& body) const {
    for (const Block& block : blocks_ | std::views::reverse)
      for (const Use& use : block | std::views::reverse)
        if (!body(use)) return;
  }

 private:
  static constexpr std::size_t block_max = 128;
  using Block = std::vector<Use>;

  std::vector<Block>::iterator block_of(Time at, ChunkId chunk);

  std::vector<Block> blocks_;  // None is empty.
};

/// The predicted next uses of chunks, by time; and by the place where the chunks lie.
class UseCalendar {
 public:
  struct Entry {
    NextUse use;
    Time asked{0};  ///< When it was predicted.
    PlaceId at{};   ///< Where the chunk lies.
    bool known = false;
    std::uint16_t pays_below = 0;  ///< How many working GPUs are too many for a prefetch to pay.
  };

  void put(ChunkId chunk, const NextUse& use, Time now, PlaceId at, std::uint16_t pays_below);
  void drop(ChunkId chunk);
  /// Prefetch: the chunk's entry is about to be read.
  void prepare(ChunkId chunk) const {
    if (index(chunk) < entries_.size()) __builtin_prefetch(&entries_[index(chunk)]);
  }
  const Entry& operator[](ChunkId chunk) const;
  bool has(ChunkId chunk) const { return (*this)[chunk].known; }

  /// Calls `body`, the nearest first, until it returns false. It must not change the calendar.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void nearest(Body&& body) const {
    order_.nearest(
        [&](const UseOrder::Use& use) { return body(use.chunk, entries_[index(use.chunk)].use); });
  }
  /// The same for those of the nearest `most` whose chunks do not lie at the GPU that will use
  /// them, and whose prefetch pays while so many GPUs work.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void nearest_paying(std::size_t most, std::size_t working, Body&& body) const {
    order_.nearest([&](const UseOrder::Use& use) {
      if (most-- == 0) return false;
      return use.device == use.lies_at || working >= use.pays_below ||
             body(use.chunk, entries_[index(use.chunk)].use);
    });
  }
  /// The same for those at one place, the furthest first.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void furthest(PlaceId at, Body&& body) const {
    if (index(at) >= at_.size()) return;
    at_[index(at)].furthest(
        [&](const UseOrder::Use& use) { return body(use.chunk, entries_[index(use.chunk)].use); });
  }

 private:
  std::vector<Entry> entries_;  // By chunk.
  UseOrder order_;
  std::vector<UseOrder> at_;  // By place.
};

/// When chunks that stay are used again. The times between the uses of a chunk repeat after one to
/// eight of them; of a chunk that was used once, the next use comes after the time that has just
/// passed between two uses of other chunks of the same GPU, once these agree.
///
/// Times are compared within a quarter of them, and `apart`, so that uses may be late. A use that
/// does not come, or comes in addition, costs its chunk the prediction until its uses repeat again.
/// 216 bytes a chunk, of `chunks_max`; each use costs a bounded time.
class UseRhythm {
 public:
  static constexpr std::size_t chunks_max = std::size_t{1} << 16;

  /// Uses less than `apart` after each other are one.
  explicit UseRhythm(Time apart) : apart_(apart) {}

  /// Prefetch: the chunk is about to be used, or asked for.
  void prepare(ChunkId chunk) const {
    if (index(chunk) >= rhythms_.size()) return;
    __builtin_prefetch(&rhythms_[index(chunk)]);
    __builtin_prefetch(&rhythms_[index(chunk)].count);
  }
  /// Returns whether a new use has begun.
  bool used(const UseEvent& use, const Snapshot& snapshot);
  /// None if it is not known.
  std::optional<NextUse> next(ChunkId chunk) const;
  /// Whether what others do may yet tell when it is used.
  bool follows_others(ChunkId chunk) const;
  /// The predicted use has not come.
  void missed(ChunkId chunk);
  void gone(ChunkId chunk);
  /// Whether predictions come true.
  bool trusted() const noexcept { return record_.trusted(); }
  /// How late a use may be that is expected so long after the last one.
  Time patience(Time gap) const { return gap / 4 + apart_; }

 private:
  static constexpr std::size_t uses_kept = 16, period_max = 8;
  struct Use {
    float gap = 0;  // Seconds since the use before.
    float passes = 0;
    PlaceId device{};
  };
  struct Rhythm {
    Time begin{0}, last{0};           // Of the last use.
    std::array<Use, uses_kept> uses;  // A ring.
    std::uint32_t count = 0;          // Of all uses.
    bool lost = false;                // The prediction for the last one failed.
    std::uint8_t period = 0;          // After how many uses the times repeat; 0: they do not.
  };
  /// What the chunks of a GPU that were used once are expected to do.
  struct Beat {
    Time gap{0};
    std::uint32_t agreed = 0;  // How many chunks had this gap, one after the other.
  };

  static const Use& use_at(const Rhythm& rhythm, std::uint32_t number) {
    return rhythm.uses[number % uses_kept];
  }
  bool alike(Time left, Time right) const;
  std::uint8_t find_period(const Rhythm& rhythm) const;
  std::optional<NextUse> next(const Rhythm& rhythm) const;
  void judge(const Rhythm& rhythm, Time now);
  void keep_beat(PlaceId device, Time gap);

  const Time apart_;
  TrackRecord record_;
  std::vector<Rhythm> rhythms_;  // By chunk.
  std::vector<Beat> beats_;      // By GPU.
};

}  // namespace vma::inline v1
