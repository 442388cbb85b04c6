// Contexts and streams that come and go.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/process.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace vma::interpose {
namespace {

/// Programs set CU_CTX_SYNC_MEMOPS before they register memory of the context with a network card.
void note_flags(CUcontext context, unsigned flags) noexcept {
  program().memory.pin_all(context, (flags & CU_CTX_SYNC_MEMOPS) != 0);
}

/// The driver keeps its lock while it creates a context, and beside stopped work it may not return
/// from that: so nothing is stopped meanwhile.
template <typename Call>
CUresult beside_no_stop(Call call) noexcept {
  const CopyScope scope;
  return call();
}

template <EntryPoint entry, typename... Args>
CUresult create_context(CUcontext* out, unsigned flags, CUdevice device, Args... args) noexcept {
  const CUresult result =
      beside_no_stop([&] { return call_driver<entry>(out, args..., flags, device); });
  if (result != CUDA_SUCCESS) return result;
  if (!program().streams.created(*out)) {
    program().memory.pin_all("there is no memory for the list of contexts");
  }
  note_flags(*out, flags);
  return result;
}

template <EntryPoint entry>
CUresult enter_context(CUcontext context) noexcept {
  const CUresult result = call_driver<entry>(context);
  if (result == CUDA_SUCCESS) program().streams.note_current(context);
  return result;
}

/// Frees what the context has, also of other processes.
void free_all_of(CUcontext context) noexcept {
  program().handles.close_all_of(context);
  program().memory.free_all_of(context);
}

/// The driver would destroy vmart's streams and mappings with the primary context. So this does
/// what the program sees of a reset: its work has ended, and its streams and memory are gone.
bool reset_without_driver(CUdevice device) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  if (VmartLibrary::loaded() == nullptr || driver == nullptr) return false;
  unsigned flags = 0;
  int active = 0;
  CUcontext context = nullptr;
  if (driver->cuDevicePrimaryCtxGetState_plain(device, &flags, &active) != CUDA_SUCCESS ||
      active == 0 ||
      driver->real<EntryPoint::cuDevicePrimaryCtxRetain>()(&context, device) != CUDA_SUCCESS) {
    return false;
  }
  {
    const PushedContext pushed(*driver, context);
    if (pushed) driver->real<EntryPoint::cuCtxSynchronize>()();
  }
  program().streams.destroy_streams_of(context);
  free_all_of(context);
  program().memory.free_all_of_pools(device);
  program().pools.settle();
  driver->real<EntryPoint::cuDevicePrimaryCtxRelease_v2>()(device);
  return true;
}

/// `leave_memory` frees what was allocated in the context, or keeps it.
template <EntryPoint entry>
CUresult destroy_context(CUcontext context, auto handle, auto leave_memory) noexcept {
  program().streams.before_destruction(context);
  leave_memory();
  program().copies.before_destruction(context);
  program().memory.await_frees();
  program().refusals.forget(context);
  program().memory.pin_all(context, false);
  const ProgramMemory::Pinned still(program().memory);
  return Uses::unloading([=] { return call_driver<entry>(handle); });
}

/// The driver refuses to destroy a primary context, so its memory must stay.
template <EntryPoint entry>
CUresult destroy_own(CUcontext context) noexcept {
  if (!program().streams.owns(context))
    return Uses::unloading([=] { return call_driver<entry>(context); });
  return destroy_context<entry>(context, context, [=] { free_all_of(context); });
}

/// The program's references to the primary context of each GPU. vmart has its own, which a release
/// too many must not end.
std::atomic<int>* references_of(CUdevice device) noexcept {
  constexpr std::size_t devices_max = 64;
  static constinit std::array<std::atomic<int>, devices_max> counts{};
  const bool known = device >= 0 && static_cast<std::size_t>(device) < devices_max;
  return known ? &counts[static_cast<std::size_t>(device)] : nullptr;
}

template <EntryPoint entry>
CUresult release_primary(CUdevice device) noexcept {
  std::atomic<int>* const references = references_of(device);
  int count = references != nullptr ? references->load() : 0;
  while (count > 0 && !references->compare_exchange_weak(count, count - 1)) {
  }
  const bool one_too_many = references != nullptr && count == 0;
  // The driver's answer to that, which has no reference of vmart to count.
  if (one_too_many && VmartLibrary::loaded() != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto release = [=] { return call_driver<entry>(device); };
  const CUresult result = count == 1 ? Uses::unloading(release) : release();
  if (result != CUDA_SUCCESS && count > 0) references->fetch_add(1);
  return result;
}

/// If it is not active yet, the program's `cuDevicePrimaryCtxRetain` notes them.
template <EntryPoint entry>
CUresult set_primary_flags(CUdevice device, unsigned flags) noexcept {
  const CUresult result = call_driver<entry>(device, flags);
  if (result != CUDA_SUCCESS) return result;
  CUcontext const context = primary_context(*DriverLibrary::get(), device);
  if (context != nullptr) note_flags(context, flags);
  return result;
}

}  // namespace

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  const CUresult result = beside_no_stop(
      [&] { return call_driver<EntryPoint::cuDevicePrimaryCtxRetain>(out, device); });
  if (result != CUDA_SUCCESS) return result;
  if (std::atomic<int>* const references = references_of(device)) references->fetch_add(1);
  unsigned flags = 0;
  int active = 0;
  DriverLibrary::get()->cuDevicePrimaryCtxGetState_plain(device, &flags, &active);
  if ((flags & CU_CTX_SYNC_MEMOPS) != 0) note_flags(*out, flags);
  return result;
}

CUresult hook_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return set_primary_flags<EntryPoint::cuDevicePrimaryCtxSetFlags>(device, flags);
}

CUresult hook_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return set_primary_flags<EntryPoint::cuDevicePrimaryCtxSetFlags_v2>(device, flags);
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice device) {
  return release_primary<EntryPoint::cuDevicePrimaryCtxRelease>(device);
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return release_primary<EntryPoint::cuDevicePrimaryCtxRelease_v2>(device);
}

CUresult hook_cuCtxSetFlags(unsigned flags) {
  CUcontext context = nullptr;
  int device = 0;
  const CUresult result = call_driver<EntryPoint::cuCtxSetFlags>(flags);
  if (result == CUDA_SUCCESS && ProgramStreams::current(context, device)) {
    note_flags(context, flags);
  }
  return result;
}

CUresult hook_cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc description, CUdevice device,
                               unsigned flags) {
  program().streams.note_green_context();
  return beside_no_stop(
      [&] { return call_driver<EntryPoint::cuGreenCtxCreate>(out, description, device, flags); });
}

CUresult hook_cuGreenCtxDestroy(CUgreenCtx green) {
  const DriverLibrary* const driver = DriverLibrary::get();
  CUcontext context = nullptr;
  if (is_forked_child()) return call_driver<EntryPoint::cuGreenCtxDestroy>(green);
  if (driver != nullptr && driver->cuCtxFromGreenCtx_plain != nullptr) {
    driver->cuCtxFromGreenCtx_plain(&context, green);
  }
  // Its memory is the primary context's, and lives on with that.
  return destroy_context<EntryPoint::cuGreenCtxDestroy>(
      context, green, [=] { program().memory.hand_over(context); });
}

CUresult hook_cuCtxCreate(CUcontext* out, unsigned flags, CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate>(out, flags, device);
}

CUresult hook_cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate_v2>(out, flags, device);
}

CUresult hook_cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count,
                             unsigned flags, CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate_v3>(out, flags, device, affinity, count);
}

CUresult hook_cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned flags,
                             CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate_v4>(out, flags, device, parameters);
}

CUresult hook_cuCtxDestroy_v2(CUcontext context) {
  return destroy_own<EntryPoint::cuCtxDestroy_v2>(context);
}

CUresult hook_cuCtxDestroy(CUcontext context) {
  return destroy_own<EntryPoint::cuCtxDestroy>(context);
}

CUresult hook_cuCtxSetCurrent(CUcontext context) {
  return enter_context<EntryPoint::cuCtxSetCurrent>(context);
}

CUresult hook_cuCtxPushCurrent(CUcontext context) {
  return enter_context<EntryPoint::cuCtxPushCurrent>(context);
}

CUresult hook_cuCtxPushCurrent_v2(CUcontext context) {
  return enter_context<EntryPoint::cuCtxPushCurrent_v2>(context);
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice device) {
  return reset_without_driver(device) ? CUDA_SUCCESS
                                      : call_driver<EntryPoint::cuDevicePrimaryCtxReset>(device);
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return reset_without_driver(device) ? CUDA_SUCCESS
                                      : call_driver<EntryPoint::cuDevicePrimaryCtxReset_v2>(device);
}

// --- Streams

CUresult hook_cuStreamCreate(CUstream* out, unsigned flags) {
  const CUresult result = call_driver<EntryPoint::cuStreamCreate>(out, flags);
  if (result == CUDA_SUCCESS) program().streams.created(*out);
  return result;
}

CUresult hook_cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  const CUresult result = call_driver<EntryPoint::cuStreamCreateWithPriority>(out, flags, priority);
  if (result == CUDA_SUCCESS) program().streams.created(*out);
  return result;
}

CUresult hook_cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx green, unsigned flags,
                                     int priority) {
  const CUresult result =
      call_driver<EntryPoint::cuGreenCtxStreamCreate>(out, green, flags, priority);
  if (result == CUDA_SUCCESS) program().streams.created(*out);
  return result;
}

CUresult hook_cuStreamDestroy_v2(CUstream stream) {
  program().streams.before_destruction(stream);
  return call_driver<EntryPoint::cuStreamDestroy_v2>(stream);
}

CUresult hook_cuStreamDestroy(CUstream stream) {
  program().streams.before_destruction(stream);
  return call_driver<EntryPoint::cuStreamDestroy>(stream);
}

}  // namespace vma::interpose
