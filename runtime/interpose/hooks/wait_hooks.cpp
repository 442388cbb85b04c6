// Waits and queries. After a wait, a pool gives back what is free, and a query must not tell of a
// move.
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"
#include "interpose/program_pools.hpp"
#include "interpose/work/finished_work.hpp"

#include <chrono>
#include <thread>

namespace vma::interpose {
namespace {

/// Null if there is none.
CUcontext current_context() noexcept {
  CUcontext context = nullptr;
  int device = 0;
  return ProgramStreams::current(context, device) ? context : nullptr;
}

template <EntryPoint entry>
CUresult wait_for_stream(CUstream stream, CUstream named) noexcept {
  const std::uint64_t number = FinishedWork::get().begin_wait();
  const CUresult result = call_driver<entry>(stream);
  if (result != CUDA_SUCCESS) return result;
  FinishedWork::get().end_wait(number, ProgramStreams::name_of(named));
  ProgramPools::get().settle();
  return result;
}

/// `named` is null for the current one, which is then not among the arguments.
template <EntryPoint entry, typename... Context>
CUresult wait_for_context(CUcontext named, Context... context) noexcept {
  const std::uint64_t number = FinishedWork::get().begin_wait();
  const CUresult result = call_driver<entry>(context...);
  if (result != CUDA_SUCCESS) return result;
  FinishedWork::get().end_wait_for(number, named != nullptr ? named : current_context());
  ProgramPools::get().settle();
  return result;
}

/// A stream that has no work but is not ready is stopped for a move, or has work of a call that no
/// hook knows. A stop ends soon, and work does not; so this never says that work is complete.
template <EntryPoint entry>
CUresult query(CUstream stream, CUstream named) noexcept {
  constexpr auto stop_max = std::chrono::seconds(2);  // A gate gives up then.
  CUresult result = call_driver<entry>(stream);
  if (result != CUDA_ERROR_NOT_READY || !ProgramStreams::get().begun()) return result;
  const DriverLibrary* const driver = DriverLibrary::get();
  CUcontext context = nullptr;
  if (driver->cuStreamGetCtx_plain(named, &context) != CUDA_SUCCESS) return result;
  const FinishedWork::StreamName name = ProgramStreams::name_of(named);
  const auto limit = std::chrono::steady_clock::now() + stop_max;
  while (result == CUDA_ERROR_NOT_READY && FinishedWork::get().is_all_work_of(name, context) &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
    result = call_driver<entry>(stream);
  }
  return result;
}

/// A stream that was waited for has work again.
template <EntryPoint entry, typename... Flags>
CUresult record(CUevent event, CUstream stream, CUstream named, Flags... flags) noexcept {
  const CUresult result = call_driver<entry>(event, stream, flags...);
  ProgramStreams::get().note_enqueued(named);
  return result;
}

}  // namespace

CUresult hook_cuStreamSynchronize(CUstream stream) {
  return wait_for_stream<EntryPoint::cuStreamSynchronize>(stream, stream);
}

CUresult hook_cuStreamSynchronize_ptsz(CUstream stream) {
  return wait_for_stream<EntryPoint::cuStreamSynchronize_ptsz>(stream, of_thread(stream));
}

CUresult hook_cuStreamQuery(CUstream stream) {
  return query<EntryPoint::cuStreamQuery>(stream, stream);
}

CUresult hook_cuStreamQuery_ptsz(CUstream stream) {
  return query<EntryPoint::cuStreamQuery_ptsz>(stream, of_thread(stream));
}

CUresult hook_cuEventSynchronize(CUevent event) {
  const CUresult result = call_driver<EntryPoint::cuEventSynchronize>(event);
  if (result == CUDA_SUCCESS) ProgramPools::get().settle();
  return result;
}

CUresult hook_cuEventRecord(CUevent event, CUstream stream) {
  return record<EntryPoint::cuEventRecord>(event, stream, stream);
}

CUresult hook_cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return record<EntryPoint::cuEventRecord_ptsz>(event, stream, of_thread(stream));
}

CUresult hook_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return record<EntryPoint::cuEventRecordWithFlags>(event, stream, stream, flags);
}

CUresult hook_cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
  return record<EntryPoint::cuEventRecordWithFlags_ptsz>(event, stream, of_thread(stream), flags);
}

CUresult hook_cuCtxSynchronize() {
  return wait_for_context<EntryPoint::cuCtxSynchronize>(nullptr);
}

#if CUDA_VERSION >= 13000
CUresult hook_cuCtxSynchronize_v2(CUcontext context) {
  return wait_for_context<EntryPoint::cuCtxSynchronize_v2>(context, context);
}
#endif

}  // namespace vma::interpose
