#pragma once

#include <vma/snapshot.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace vma::inline v1 {

/// How many bytes of each class of density (passes per second over what an allocation takes) are
/// live, and by how much those of the denser classes have recently grown within intervals: as much
/// may be requested again during a lifetime of that length.
///
/// Intervals have lengths of powers of two. Growth is measured from the minimum of the current and
/// the last block of that length; the maximum over the current and the last window counts.
class DemandGrowth {
 public:
  static constexpr std::size_t classes = 24;  // Each half as dense as the one before.

  explicit DemandGrowth(Time window) : window_(window) {}

  static std::size_t class_of(double passes_s);
  /// `bytes` may be negative. Requires: time only rises.
  void add(std::size_t of_class, double bytes, Time now);
  /// Time passes without changes: growth is forgotten after two windows.
  void pass(Time now) { turn_window(now); }
  /// Growth of the classes denser than this one.
  double most(std::size_t of_class, double life_s) const;
  /// Like `most`, but no more than the live bytes are now below their recent peak.
  double more(std::size_t of_class, double life_s) const;

 private:
  static constexpr std::size_t lengths = 20;  // From 2^23 ns, 8.4 ms, to more than an hour.
  static constexpr unsigned first_length = 23;
  static std::size_t length_of(double life_s);

  struct Stretch {
    std::array<double, classes> least{}, least_before{};  // Of this block and the last.
    std::array<double, classes> most{}, most_before{};    // Growth, in this window and the last.
    std::int64_t block = 0;
  };
  void turn_window(Time now);
  void turn_block(Stretch& stretch, std::int64_t block) const;

  const Time window_;
  std::int64_t window_number_ = 0;
  std::array<double, classes> live_{};                  // Bytes of each class and all denser ones.
  std::array<double, classes> peak_{}, peak_before_{};  // Of `live_`, in this window and the last.
  std::array<Stretch, lengths> stretches_{};
};

}  // namespace vma::inline v1
