#pragma once

#include <vma/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// How many bytes of a chunk a GPU used.
struct UsedBytes {
  PlaceId device{};
  double bytes = 0;
};
void add_use(std::vector<UsedBytes>& users, const UseEvent& use);

/// Finds chunks whose use has shifted: for some time now, their users together would have waited
/// less if the chunk lay elsewhere. Averages notice that late, because they still contain
/// earlier use, and because a program that waits for remote memory uses less per second than it
/// did.
///
/// A shift is a cumulative sum. It begins with a use that another place would serve faster, adds up
/// what the users waited, less `margin` times what they would have waited elsewhere, and ends when
/// the sum is not positive any more. So uses that alternate cancel each other, however they are
/// distributed over ticks. The sum is only believed near its peak, so that a change back counts at
/// once, and if it is larger than chance would make it.
///
/// Chunks that are used where they lie cost nothing. At most `shifts_max` shifts are followed.
class UseShifts {
 public:
  static constexpr std::size_t shifts_max = 65'536;
  /// A shift that is never acted on forgets: once it is as long as this, in terms of `least`, its
  /// first half counts half.
  static constexpr int memory = 4;

  struct Shift {
    ChunkId chunk{};
    PlaceId at{};                     ///< Where the chunk lies.
    Time begin{0}, last{0}, peak{0};  ///< The first use, the last, and when `lost` was greatest.
    Time first{0};                    ///< `begin`, before anything was forgotten.
    std::vector<UsedBytes> users;
    double lost = 0, lost_most = 0;  ///< Seconds, now and at `peak`.
    double spread = 0;               ///< Sum of the squares of what each use can lose, in seconds.

    Time length() const { return last - begin; }
  };

  explicit UseShifts(double margin) : margin_(margin) {}

  /// Takes in a use that is in the books. `least`: see `lasting`. If a shift ends with it, returns
  /// that shift; valid until the next call of `note`.
  const Shift* note(const UseEvent& use, const Snapshot& snapshot, Time least);
  /// The shift of the chunk if it has lasted for `least` and still goes on; otherwise null. Valid
  /// until the next call of `note` or `forget`.
  const Shift* lasting(ChunkId chunk, Time least) const;
  void forget(ChunkId chunk);
  /// Prefetch: one of these is about to be called.
  void prepare(ChunkId chunk) const {
    if (index(chunk) < numbers_.size()) __builtin_prefetch(&numbers_[index(chunk)]);
  }
  bool follows(ChunkId chunk) const { return number_of(chunk) != none; }

  std::size_t size() const noexcept { return shifts_.size() - free_.size(); }
  bool empty() const noexcept { return size() == 0; }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  std::uint32_t number_of(ChunkId chunk) const {
    return index(chunk) < numbers_.size() ? numbers_[index(chunk)] : none;
  }
  Shift* begin(const UseEvent& use, const Snapshot& snapshot);
  bool make_room(Time now, Time least);
  double lost(const Shift& shift, const MachineCosts& costs) const;
  static double slowest(const Shift& shift, const UseEvent& use, const MachineCosts& costs);

  const double margin_;
  std::vector<std::uint32_t> numbers_;  // By chunk.
  std::vector<Shift> shifts_;           // Those in `free_` are unused.
  std::vector<std::uint32_t> free_;
  std::size_t looked_at_ = 0;  // Where the search for forgotten shifts goes on.
};

}  // namespace vma::inline v1
