// Waits and queries. After a wait, a pool gives back what is free, and a query must not tell of a
// move.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"

#include <chrono>
#include <thread>

namespace vma::interpose {
namespace {

template <EntryPoint entry, typename... Args>
CUresult wait(Args... args) noexcept {
  const CUresult result = call_driver<entry>(args...);
  if (result == CUDA_SUCCESS) program().pools.settle();
  return result;
}

/// Whether a stream without work may not be ready: a hold stands, or the GPU may not have seen yet
/// that it has ended.
bool may_be_held(const RunTable& vmart) noexcept {
  constexpr std::chrono::nanoseconds seen_after = std::chrono::milliseconds(1);
  return vmart.vmart_ns_since_hold() < seen_after.count();
}

/// A stream that a hold stops is not ready, though the program may have waited for all of its work:
/// asks again until it is, or no hold is the reason. Never says by itself that work is complete.
template <EntryPoint entry>
CUresult query(CUstream stream) noexcept {
  constexpr auto hold_max = std::chrono::seconds(2);  // It gives up then.
  CUresult result = call_driver<entry>(stream);
  if (result != CUDA_ERROR_NOT_READY) return result;
  const RunTable* const vmart = VmartLibrary::loaded();
  const auto limit = std::chrono::steady_clock::now() + hold_max;
  while (result == CUDA_ERROR_NOT_READY && vmart != nullptr && may_be_held(*vmart) &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
    result = call_driver<entry>(stream);
  }
  return result;
}

}  // namespace

CUresult hook_cuStreamSynchronize(CUstream stream) {
  return wait<EntryPoint::cuStreamSynchronize>(stream);
}

CUresult hook_cuStreamSynchronize_ptsz(CUstream stream) {
  return wait<EntryPoint::cuStreamSynchronize_ptsz>(stream);
}

CUresult hook_cuStreamQuery(CUstream stream) {
  return query<EntryPoint::cuStreamQuery>(stream);
}

CUresult hook_cuStreamQuery_ptsz(CUstream stream) {
  return query<EntryPoint::cuStreamQuery_ptsz>(stream);
}

CUresult hook_cuEventSynchronize(CUevent event) {
  return wait<EntryPoint::cuEventSynchronize>(event);
}

CUresult hook_cuCtxSynchronize() {
  return wait<EntryPoint::cuCtxSynchronize>();
}

#if CUDA_VERSION >= 13000
CUresult hook_cuCtxSynchronize_v2(CUcontext context) {
  return wait<EntryPoint::cuCtxSynchronize_v2>(context);
}
#endif

}  // namespace vma::interpose
