// Streams and contexts that come and go.
#include "interpose/cross_copies.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_pools.hpp"
#include "interpose/standing.hpp"
#include "interpose/vmart_library.hpp"

namespace vma::interpose {
namespace {

template <EntryPoint entry, typename... Args>
CUresult create_context(CUcontext* out, Args... args) noexcept {
  const CUresult result = call_driver<entry>(out, args...);
  if (result == CUDA_SUCCESS) ProgramStreams::get().created(*out);
  return result;
}

template <EntryPoint entry>
CUresult enter_context(CUcontext context) noexcept {
  const CUresult result = call_driver<entry>(context);
  if (result == CUDA_SUCCESS) ProgramStreams::get().note_current(context);
  return result;
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
      active == 0 || driver->cuDevicePrimaryCtxRetain_plain(&context, device) != CUDA_SUCCESS) {
    return false;
  }
  {
    const PushedContext pushed(*driver, context);
    if (pushed) driver->real<EntryPoint::cuCtxSynchronize>()();
  }
  ProgramStreams::get().destroy_streams_of(context);
  ProgramMemory::get().free_all_of(context);
  ProgramMemory::get().free_all_of_pools(device);
  ProgramPools::get().settle();
  driver->cuDevicePrimaryCtxRelease_v2_plain(device);
  return true;
}

/// `leave_memory` frees what was allocated in the context, or keeps it.
template <EntryPoint entry>
CUresult destroy_context(CUcontext context, auto handle, auto leave_memory) noexcept {
  ProgramStreams::get().before_destruction(context);
  leave_memory();
  CrossCopies::get().before_destruction(context);
  ProgramMemory::get().await_frees();
  const ProgramMemory::Still still;
  return call_driver<entry>(handle);
}

/// The driver refuses to destroy a primary context, so its memory must stay.
template <EntryPoint entry>
CUresult destroy_own(CUcontext context) noexcept {
  if (!ProgramStreams::get().owns(context)) return call_driver<entry>(context);
  return destroy_context<entry>(context, context,
                                [=] { ProgramMemory::get().free_all_of(context); });
}

}  // namespace

CUresult hook_cuStreamCreate(CUstream* out, unsigned flags) {
  const CUresult result = call_driver<EntryPoint::cuStreamCreate>(out, flags);
  if (result == CUDA_SUCCESS) ProgramStreams::get().created(*out, flags);
  return result;
}

CUresult hook_cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  const CUresult result = call_driver<EntryPoint::cuStreamCreateWithPriority>(out, flags, priority);
  if (result == CUDA_SUCCESS) ProgramStreams::get().created(*out, flags);
  return result;
}

CUresult hook_cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx green, unsigned flags,
                                     int priority) {
  const CUresult result =
      call_driver<EntryPoint::cuGreenCtxStreamCreate>(out, green, flags, priority);
  if (result == CUDA_SUCCESS) ProgramStreams::get().created(*out, flags | CU_STREAM_NON_BLOCKING);
  return result;
}

CUresult hook_cuStreamDestroy_v2(CUstream stream) {
  ProgramStreams::get().before_destruction(stream);
  return call_driver<EntryPoint::cuStreamDestroy_v2>(stream);
}

CUresult hook_cuStreamDestroy(CUstream stream) {
  ProgramStreams::get().before_destruction(stream);
  return call_driver<EntryPoint::cuStreamDestroy>(stream);
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
      context, green, [=] { ProgramMemory::get().hand_over(context); });
}

CUresult hook_cuCtxCreate(CUcontext* out, unsigned flags, CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate>(out, flags, device);
}

CUresult hook_cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate_v2>(out, flags, device);
}

CUresult hook_cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count,
                             unsigned flags, CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate_v3>(out, affinity, count, flags, device);
}

CUresult hook_cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned flags,
                             CUdevice device) {
  return create_context<EntryPoint::cuCtxCreate_v4>(out, parameters, flags, device);
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

}  // namespace vma::interpose
