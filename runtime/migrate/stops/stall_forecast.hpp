#pragma once

#include "base/mutex.hpp"

#include <vma/place.hpp>

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

namespace vma {

/// Predicts how long work stands for a chunk, from what earlier chunks took: an exponential average
/// for each kind of switch, and one each for settling, for copies and for suspensions. Any thread.
class StallForecast {
 public:
  StallForecast();

  /// What the time of an unmap, a map and a grant depends on.
  struct Switch {
    Place from, to;
    std::uint64_t size_bytes = 0;
    std::size_t gpus = 1;  ///< That get access.
  };

  /// What makes the target complete while the gate is closed.
  enum class Fill { none, settle, copy };

  /// How long a suspension takes apart from what is done during it. In a process of many channels
  /// it takes longer.
  struct Suspending {
    std::chrono::nanoseconds off{0}, on{0};
  };

  std::chrono::nanoseconds fill_time(Fill fill, std::uint64_t size_bytes) const;
  std::chrono::nanoseconds switch_time(const Switch& which) const;
  void note_filled(Fill fill, std::uint64_t size_bytes, std::chrono::nanoseconds took);
  /// It took no longer, which says something only if more was expected.
  void note_filled_within(Fill fill, std::uint64_t size_bytes, std::chrono::nanoseconds limit);
  void note_switched(const Switch& which, std::chrono::nanoseconds took) noexcept;
  /// As the last ones took; `guess` until then.
  Suspending suspending(Suspending guess) const;
  void note_suspended(Suspending took) noexcept;

 private:
  struct Kind {
    Place::Kind from, to;
    int size_class;  // The number of bits of the size.
    std::size_t gpus;
    auto operator<=>(const Kind&) const = default;
  };
  static Kind kind_of(const Switch& which);

  mutable Mutex mutex_;
  double settle_ns_per_byte_ VMART_GUARDED_BY(mutex_);
  double copy_ns_per_byte_ VMART_GUARDED_BY(mutex_);
  std::map<Kind, double> switch_ns_ VMART_GUARDED_BY(mutex_);
  double off_ns_ VMART_GUARDED_BY(mutex_) = 0;  // Zero: none was measured.
  double on_ns_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
