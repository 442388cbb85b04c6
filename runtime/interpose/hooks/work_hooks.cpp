// Work of the program: launches whose configuration is looked at, the end of kernels, waits and
// queries. After a wait, a pool gives back what is free, and a query must not tell of a move.
#include "base/process_exit.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/work/launches.hpp"

#include <chrono>
#include <optional>
#include <thread>

namespace vma::interpose {
namespace {

const char* name_of(CUfunction function) noexcept {
  const DriverLibrary& driver = *DriverLibrary::get();
  const char* name = nullptr;
  if (driver.cuFuncGetName_plain == nullptr || driver.cuKernelGetName_plain == nullptr) return name;
  if (driver.cuFuncGetName_plain(&name, function) == CUDA_SUCCESS) return name;
  // CUDA's runtime passes kernels of libraries in place of functions.
  const auto kernel = reinterpret_cast<CUkernel>(function);
  return driver.cuKernelGetName_plain(&name, kernel) == CUDA_SUCCESS ? name : nullptr;
}

EarlyReaders& early_readers() noexcept {
  static Immortal<EarlyReaders> readers([] { return EarlyReaders(name_of); });
  return *readers;
}

template <EntryPoint entry>
CUresult launch_with(const CUlaunchConfig* config, CUfunction function, void** parameters,
                     void** extra) noexcept {
  const CUstream stream = config != nullptr ? config->hStream : nullptr;
  std::optional<SerialLaunch> serial;
  if (config != nullptr && may_overlap(*config) && early_readers().has(function)) {
    config = serial.emplace(*config).config();
  }
  const CUresult result = enqueue_with_room<entry>(stream, RoomNeed::on_stream(stream), config,
                                                   function, parameters, extra);
  if (result == CUDA_SUCCESS) program().uses.note_launch(function, parameters, extra);
  return result;
}

template <EntryPoint entry, typename Handle>
CUresult unload(Handle handle) noexcept {
  const ProgramMemory::Pinned still(program().memory);
  const CUresult result = Uses::unloading([=] { return call_driver<entry>(handle); });
  early_readers().forget();
  return result;
}

}  // namespace

CUresult hook_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                               void** extra) {
  return launch_with<EntryPoint::cuLaunchKernelEx>(config, function, parameters, extra);
}

CUresult hook_cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function,
                                    void** parameters, void** extra) {
  return launch_with<EntryPoint::cuLaunchKernelEx_ptsz>(config, function, parameters, extra);
}

CUresult hook_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches, unsigned count,
                                                   unsigned flags) {
  const ProgramStreams::Enqueue enqueue(program().streams);
  return call_driver<EntryPoint::cuLaunchCooperativeKernelMultiDevice>(launches, count, flags);
}

CUresult hook_cuModuleUnload(CUmodule module) {
  return unload<EntryPoint::cuModuleUnload>(module);
}

CUresult hook_cuLibraryUnload(CUlibrary library) {
  return unload<EntryPoint::cuLibraryUnload>(library);
}

}  // namespace vma::interpose

namespace vma::interpose {
namespace {

/// What the calling thread has last waited for: all work of a stream, or of a context.
struct Waited {
  bool any = false;
  bool whole_context = false;
  CUstream stream = nullptr;
};
thread_local Waited waited;

void note_waited(CUresult result, const Waited& what) noexcept {
  if (result != CUDA_SUCCESS) return;
  waited = what;
  program().pools.settle();
}

template <EntryPoint entry>
CUresult wait_for_stream(CUstream stream) noexcept {
  const CUresult result = call_driver<entry>(stream);
  note_waited(result, {true, false, stream});
  return result;
}

template <EntryPoint entry, typename... Context>
CUresult wait_for_context(Context... context) noexcept {
  const CUresult result = call_driver<entry>(context...);
  note_waited(result, {true, true, nullptr});
  return result;
}

/// Whether a stream without work may not be ready: a hold stands, or a GPU that works for several
/// processes in turn may not have seen yet that it has ended.
bool may_be_held(const RunTable& vmart) noexcept {
  constexpr std::chrono::nanoseconds seen_after = std::chrono::milliseconds(10);
  return vmart.vmart_ns_since_hold() < seen_after.count();
}

/// A stream that a hold stops is not ready, though the thread has waited for it: asks again until
/// it is, or no hold is the reason. Never says by itself that work is complete, since the thread or
/// another one may have enqueued some after the wait.
template <EntryPoint entry>
CUresult query(CUstream stream) noexcept {
  constexpr auto hold_max = std::chrono::seconds(2);  // It gives up then.
  CUresult result = call_driver<entry>(stream);
  const bool has_waited = waited.any && (waited.whole_context || waited.stream == stream);
  if (result != CUDA_ERROR_NOT_READY || !has_waited) return result;
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
  return wait_for_stream<EntryPoint::cuStreamSynchronize>(stream);
}

CUresult hook_cuStreamSynchronize_ptsz(CUstream stream) {
  return wait_for_stream<EntryPoint::cuStreamSynchronize_ptsz>(stream);
}

CUresult hook_cuStreamQuery(CUstream stream) {
  return query<EntryPoint::cuStreamQuery>(stream);
}

CUresult hook_cuStreamQuery_ptsz(CUstream stream) {
  return query<EntryPoint::cuStreamQuery_ptsz>(stream);
}

CUresult hook_cuEventSynchronize(CUevent event) {
  const CUresult result = call_driver<EntryPoint::cuEventSynchronize>(event);
  if (result == CUDA_SUCCESS) program().pools.settle();
  return result;
}

CUresult hook_cuCtxSynchronize() {
  return wait_for_context<EntryPoint::cuCtxSynchronize>();
}

#if CUDA_VERSION >= 13000
CUresult hook_cuCtxSynchronize_v2(CUcontext context) {
  return wait_for_context<EntryPoint::cuCtxSynchronize_v2>(context);
}
#endif

}  // namespace vma::interpose
