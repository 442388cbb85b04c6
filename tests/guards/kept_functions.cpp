// A library that calls the driver: by its imports, by functions in its constant data, and by those
// that it looks up at its start and keeps, as CUDA's runtime does.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <dlfcn.h>

namespace {

const void* const linked[] = {reinterpret_cast<const void*>(&cuMemcpyDtoDAsync),
                              reinterpret_cast<const void*>(&cuLaunchKernel)};
void* kept[5];

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

/// Returns how many functions are kept.
int look_functions_up() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  kept[0] = dlsym(library, "cuMemcpyAsync");
  kept[1] = dlsym(library, "cuMemsetD2D8Async_ptsz");
  kept[2] = dlsym(library, "cuGetProcAddress_v2");
  CUdriverProcAddressQueryResult status{};
  const auto resolve = reinterpret_cast<PFN_cuGetProcAddress_v12000>(kept[2]);
  resolve("cuMemcpyHtoDAsync", &kept[3], 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
          &status);
  resolve("cuGraphAddMemcpyNode", &kept[4], CUDA_VERSION, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
          &status);
  return 5;
}
const void* kept_function(int which) {
  return kept[which];
}
const void* linked_function(int which) {
  return linked[which];
}
int fill_by_import(CUdeviceptr begin, std::size_t bytes) {
  return cuMemsetD8(begin, 7, bytes);
}

}  // extern "C"
