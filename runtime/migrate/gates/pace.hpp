#pragma once

#include "base/mutex.hpp"
#include "migrate/gates/stall_budget.hpp"

#include <chrono>
#include <cstdint>

namespace vma {

/// The budgets that all moves of a runtime share. Any thread.
class Pace {
 public:
  /// Limits as for `StallBudget`: zero means no limit.
  Pace(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second);

  /// When a copy that takes `estimate` may begin so that it ends no earlier than the next stop is
  /// allowed. Ask again while waiting: other copies or `allow_ahead` may change it.
  TimePoint next_copy(TimePoint now, std::chrono::nanoseconds estimate) const;
  /// Books a copy that begins now, if the copy budget allows that. It may end before the next stop
  /// is allowed.
  bool try_book_copy(TimePoint now, std::uint64_t size_bytes);
  /// The earliest time for the next stop; `now` if it may come at once.
  TimePoint next_stop(TimePoint now) const;
  /// See `StallBudget::allow_ahead`; whoever calls it last decides.
  void allow_ahead(std::chrono::nanoseconds stall);
  void spent_stall(TimePoint began, std::chrono::nanoseconds stall) noexcept;

 private:
  mutable Mutex mutex_;
  StallBudget budget_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
