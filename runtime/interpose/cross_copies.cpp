#include "interpose/cross_copies.hpp"

#include "interpose/process.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <optional>

namespace vma::interpose {
namespace {

/// Where an operand lies, as the program sees it.
struct Owner {
  CUcontext context = nullptr;
  int device = 0;
};

/// The owner of memory of the driver. None if it is not memory of a GPU, or the program has mapped
/// it.
std::optional<Owner> home_in_driver(CUdeviceptr operand) noexcept {
  Owner owner;
  unsigned type = 0;
  std::array asked = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 3> answers = {&type, &owner.context, &owner.device};
  // Unlike cuPointerGetAttribute, it does not fail for host memory that the driver does not know.
  const CUresult result = call_driver<EntryPoint::cuPointerGetAttributes>(
      unsigned{asked.size()}, asked.data(), answers.data(), operand);
  const bool known = result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE;
  return known && owner.context != nullptr ? std::optional(owner) : std::nullopt;
}

/// If not, there is nothing to order: the driver does that for copies on one GPU.
bool has_several_gpus() noexcept {
  static std::atomic<int> count = 0;
  if (count.load(std::memory_order_relaxed) == 0) {
    int found = 0;
    if (DriverLibrary::get()->cuDeviceGetCount_plain(&found) == CUDA_SUCCESS) count = found;
  }
  return count.load(std::memory_order_relaxed) > 1;
}

bool captures_in(const DriverLibrary& driver, CUcontext context) noexcept {
  const PushedContext pushed(driver, context);
  return !pushed || ProgramStreams::captures(driver, nullptr);
}

}  // namespace

void CrossCopies::before_destruction(CUcontext context) noexcept {
  if (is_forked_child()) return;
  const std::lock_guard lock(mutex_);
  events_.erase(context);
}

void CrossCopies::Order::begin(const CopyOperands& operands) noexcept {
  if (!copies_.streams_.begun() || !has_several_gpus()) return;
  std::array<std::optional<ProgramAllocation>, 2> memory;
  std::ranges::transform(operands, memory.begin(),
                         [this](CUdeviceptr at) { return copies_.memory_.find(at); });
  int device = 0;
  if ((!memory[0] && !memory[1]) || !ProgramStreams::current(current_, device)) return;
  std::size_t next = 0;
  for (const CUdeviceptr operand : operands) {
    const auto& known = memory[next++];
    auto owner =
        known ? std::optional(Owner{known->context, known->device}) : home_in_driver(operand);
    if (!owner || owner->device == device) continue;
    // Memory of a pool has no context.
    if (owner->context == nullptr) {
      owner->context = primary_context(*DriverLibrary::get(), owner->device);
    }
    if (owner->context == nullptr || (count_ == 1 && others_[0] == owner->context)) continue;
    others_[count_++] = owner->context;
  }
  for (std::size_t i = 0; i < count_; ++i) copies_.let_wait(current_, others_[i]);
}

void CrossCopies::Order::end() noexcept {
  for (std::size_t i = 0; i < count_; ++i) copies_.let_wait(others_[i], current_);
}

void CrossCopies::let_wait(CUcontext later, CUcontext earlier) noexcept {
  const DriverLibrary& driver = *DriverLibrary::get();
  // An event would end the capture of a blocking stream.
  if (captures_in(driver, earlier) || captures_in(driver, later)) return;
  const PushedContext in_earlier(driver, earlier);
  if (!in_earlier) return;
  if (const CUevent recorded = record(driver, earlier)) {
    const PushedContext in_later(driver, later);
    const auto wait = driver.real<EntryPoint::cuStreamWaitEvent>();
    if (in_later && wait(nullptr, recorded, 0) == CUDA_SUCCESS) return;
  }
  const RelaxedCaptures relaxed(driver);
  driver.real<EntryPoint::cuStreamSynchronize>()(nullptr);
}

CUevent CrossCopies::record(const DriverLibrary& driver, CUcontext context) noexcept {
  const CUevent event = event_of(driver, context);
  if (event == nullptr) return nullptr;
  if (driver.cuEventRecord_plain(event, nullptr) == CUDA_SUCCESS) return event;
  before_destruction(context);  // It may be that of an earlier context with the same handle.
  return nullptr;
}

CUevent CrossCopies::event_of(const DriverLibrary& driver, CUcontext context) noexcept try {
  const std::lock_guard lock(mutex_);
  CUevent& event = events_[context];
  if (event == nullptr) driver.cuEventCreate_plain(&event, CU_EVENT_DISABLE_TIMING);
  return event;
} catch (const std::exception&) {  // Without memory for the list.
  return nullptr;
}

}  // namespace vma::interpose
