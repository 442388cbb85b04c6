// Streams that come and go.
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"
#include "interpose/program_streams.hpp"

namespace vma::interpose {

CUresult hook_cuStreamCreate(CUstream* out, unsigned flags) {
  const CUresult result = call_driver<EntryPoint::cuStreamCreate>(out, flags);
  if (result == CUDA_SUCCESS) ProgramStreams::get().created(*out);
  return result;
}

CUresult hook_cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  const CUresult result = call_driver<EntryPoint::cuStreamCreateWithPriority>(out, flags, priority);
  if (result == CUDA_SUCCESS) ProgramStreams::get().created(*out);
  return result;
}

CUresult hook_cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx green, unsigned flags,
                                     int priority) {
  const CUresult result =
      call_driver<EntryPoint::cuGreenCtxStreamCreate>(out, green, flags, priority);
  if (result == CUDA_SUCCESS) ProgramStreams::get().created(*out);
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

}  // namespace vma::interpose
