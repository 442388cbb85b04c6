#pragma once

#include "base/mutex.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <memory>
#include <utility>

namespace vma {

/// Keeps the program from submitting work between the two calls that hold a context. Work that
/// another thread submits there is neither waited for nor held: no promise covers it, so tests must
/// avoid it.
///
/// The program submits under the given mutex. A thread holds that mutex from `record_context` until
/// it has held as many contexts as it has recorded, or makes a call that does not belong to a hold.
class SubmissionWindow final : public InterceptDriver {
 public:
  SubmissionWindow(Driver& inner, Mutex& submissions)
      : InterceptDriver(inner), submissions_(submissions) {}
  SubmissionWindow(std::unique_ptr<Driver> inner, Mutex& submissions)
      : InterceptDriver(std::move(inner)), submissions_(submissions) {}

 private:
  void around(Call call, const std::function<void()>& body) override;
  void enter() VMART_NO_THREAD_ANALYSIS;
  void leave() noexcept VMART_NO_THREAD_ANALYSIS;

  Mutex& submissions_;
};

}  // namespace vma
