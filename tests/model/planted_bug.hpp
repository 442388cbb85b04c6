#pragma once

#include "support/drivers/intercept_driver.hpp"

#include <atomic>
#include <optional>

namespace vma {

/// A driver that says it did what it did not do: what the model must find.
struct Bug {
  Call call = Call::copy;
  /// Of the calls that are swallowed: every so many-th one.
  int every = 0;
};

/// Hands everything on but what the bug swallows. Any thread.
class PlantedBug final : public InterceptDriver {
 public:
  PlantedBug(Driver& inner, const std::optional<Bug>& bug) : InterceptDriver(inner), bug_(bug) {}

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (bug_ && call == bug_->call && ++calls_ % bug_->every == 0) return;
    body();
  }

  const std::optional<Bug> bug_;
  std::atomic<int> calls_{0};
};

}  // namespace vma
