#include "support/drivers/fault_driver.hpp"

#include "driver/native_codes.hpp"

#include <fmt/format.h>

#include <utility>

namespace vma {
namespace {

/// The code that the real call would return: out of memory for calls that allocate.
int native_fault(Call call) {
  switch (call) {
    case Call::reserve:
    case Call::create:
    case Call::create_exportable:
    case Call::map:
    case Call::grant:
    case Call::allocate_pinned:
    case Call::allocate_plain:
    case Call::make_chain:
    case Call::retain_primary:
    case Call::create_green_context:
    case Call::create_own_context:
    case Call::create_context: return native_out_of_memory;
    default: return native_unknown;
  }
}

}  // namespace

bool can_fail(Call call) noexcept {
  switch (call) {
    case Call::device_info:
    case Call::can_access_peer:
    case Call::link_info:
    case Call::host_node_count:
    case Call::granularity:
    case Call::export_types:
    case Call::free_bytes:
    case Call::context_active:
    case Call::current_context:
    case Call::set_current_context:
    case Call::context_device:
    case Call::stream_id:
    case Call::stream_kind: return false;
    default: return true;
  }
}

void FaultDriver::fail_calls(std::set<int> numbers) {
  MutexLock lock(mutex_);
  numbers_ = std::move(numbers);
  seen_.clear();
  fired_ = 0;
}

void FaultDriver::count_only(std::set<Call> calls) {
  MutexLock lock(mutex_);
  only_ = std::move(calls);
}

int FaultDriver::counted() const {
  MutexLock lock(mutex_);
  return static_cast<int>(seen_.size());
}

int FaultDriver::fired() const {
  MutexLock lock(mutex_);
  return fired_;
}

std::vector<Call> FaultDriver::seen() const {
  MutexLock lock(mutex_);
  return seen_;
}

std::set<Call> FaultDriver::failed() const {
  MutexLock lock(mutex_);
  return failed_;
}

int FaultDriver::count(Call call) {
  MutexLock lock(mutex_);
  if (!can_fail(call) || (!only_.empty() && !only_.contains(call))) return -1;
  const int number = static_cast<int>(seen_.size());
  seen_.push_back(call);
  if (!numbers_.contains(number)) return -1;
  failed_.insert(call);
  ++fired_;
  return number;
}

void FaultDriver::around(Call call, const std::function<void()>& body) {
  const int number = count(call);
  if (number < 0) return body();
  throw driver_error(native_fault(call), to_string(call),
                     fmt::format("failed on purpose, call number {}", number));
}

}  // namespace vma
