#include "interpose/uses.hpp"

#include "interpose/program_memory.hpp"
#include "interpose/program_streams.hpp"
#include "interpose/room.hpp"
#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>

namespace vma::interpose {
namespace {

/// The GPU of the calling thread's context; negative if vmart has no memory of the program.
int using_gpu() noexcept {
  CUcontext context = nullptr;
  int device = 0;
  if (!uses_are_read() || VmartLibrary::loaded() == nullptr) return -1;
  return ProgramStreams::current(context, device) ? device : -1;
}

}  // namespace

bool uses_are_read() noexcept {
  return Settings::get().uses_are_read || any_limit_was_set();
}

void note_launch(CUfunction function, void** parameters) noexcept {
  if (parameters == nullptr) return;
  const int gpu = using_gpu();
  if (gpu >= 0) VmartLibrary::loaded()->vmart_record_launch(function, parameters, gpu);
}

void note_use(CUdeviceptr begin, std::size_t bytes, bool writes) noexcept {
  const int gpu = using_gpu();
  if (gpu < 0) return;
  while (bytes > 0) {  // A copy may go through neighbours that the program has mapped itself.
    const auto memory = ProgramMemory::get().find(begin);
    if (!memory) return;
    const std::size_t inside = std::min<std::size_t>(bytes, memory->begin + memory->bytes - begin);
    VmartLibrary::loaded()->vmart_record_use(reinterpret_cast<void*>(begin), inside, gpu,
                                             writes ? VMART_USE_WRITE : VMART_USE_READ);
    begin += inside;
    bytes -= inside;
  }
}

void forget_kernels() noexcept {
  const VmartLibrary* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr && uses_are_read()) vmart->vmart_forget_kernels();
}

}  // namespace vma::interpose
