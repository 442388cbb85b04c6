// Launches whose configuration is looked at, and the end of kernels.
#include "base/process_exit.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/work/launches.hpp"

#include <optional>

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
  const ProgramMemory::Still still(program().memory);
  const CUresult result = call_driver<entry>(handle);
  early_readers().forget();
  program().uses.forget_kernels();
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
