#pragma once

#include "support/drivers/intercept_driver.hpp"

#include <atomic>
#include <optional>

namespace vma {

/// Calls that a driver pretends to have made: the model must notice.
struct Bug {
  Call call = Call::copy;
  /// Every `every`-th of these calls is skipped, but for the first `spared`.
  int every = 0;
  int spared = 0;
};

/// Forwards every call except those that the bug skips. Any thread.
class PlantedBug final : public InterceptDriver {
 public:
  PlantedBug(Driver& inner, const std::optional<Bug>& bug) : InterceptDriver(inner), bug_(bug) {}

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (bug_ && call == bug_->call && is_skipped(++calls_)) return;
    body();
  }

  bool is_skipped(int number) const {
    return number > bug_->spared && (number - bug_->spared) % bug_->every == 0;
  }

  const std::optional<Bug> bug_;
  std::atomic<int> calls_{0};
};

}  // namespace vma
