#include "support/drivers/trace_driver.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace vma {

TraceDriver::TraceDriver(std::unique_ptr<Driver> inner, std::size_t calls_max)
    : InterceptDriver(std::move(inner)), calls_max_(calls_max) {
  VMART_CHECK(calls_max > 0, "a trace keeps at least one call");
}

TraceDriver::TraceDriver(Driver& inner, std::size_t calls_max)
    : InterceptDriver(inner), calls_max_(calls_max) {
  VMART_CHECK(calls_max > 0, "a trace keeps at least one call");
}

std::vector<TracedCall> TraceDriver::calls() const {
  MutexLock lock(mutex_);
  std::vector<TracedCall> ordered = ring_;
  if (returned_ > calls_max_) {
    const auto oldest = static_cast<std::ptrdiff_t>(returned_ % calls_max_);
    std::rotate(ordered.begin(), ordered.begin() + oldest, ordered.end());
  }
  return ordered;
}

std::size_t TraceDriver::forgotten() const {
  MutexLock lock(mutex_);
  return returned_ - ring_.size();
}

void TraceDriver::clear() {
  MutexLock lock(mutex_);
  ring_.clear();
  returned_ = 0;
}

std::string TraceDriver::to_text() const {
  std::string text;
  for (const TracedCall& call : calls()) {
    fmt::format_to(std::back_inserter(text), "{:14.3f} us {:10.3f} us  thread {:7}  {}{}\n",
                   static_cast<double>(call.start.count()) / 1e3,
                   static_cast<double>(call.duration.count()) / 1e3, call.thread,
                   to_string(call.call), call.threw ? "  threw" : "");
  }
  return text;
}

void TraceDriver::keep(const TracedCall& call) {
  MutexLock lock(mutex_);
  if (ring_.size() < calls_max_) {
    ring_.push_back(call);
  } else {
    ring_[returned_ % calls_max_] = call;
  }
  ++returned_;
}

void TraceDriver::around(Call call, const std::function<void()>& body) {
  TracedCall traced{call, clock().now(), TimePoint{0}, ::gettid(), false};
  try {
    body();
  } catch (...) {
    traced.duration = clock().now() - traced.start;
    traced.threw = true;
    keep(traced);
    throw;
  }
  traced.duration = clock().now() - traced.start;
  keep(traced);
}

}  // namespace vma
