/* A plugin that calls the driver by itself: by the symbols that it is linked with, and by those
 * that it looks up. For plugin_program.cpp. */
#include <cuda.h>

#include <dlfcn.h>

#pragma GCC visibility push(default)
extern "C" {

int plugin_allocate(CUdeviceptr *out, size_t bytes, int looks_up) {
  if (!looks_up) return cuMemAlloc(out, bytes);
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return -1;
  const auto call = (CUresult(*)(CUdeviceptr *, size_t))dlsym(library, "cuMemAlloc_v2");
  return call == nullptr ? -1 : call(out, bytes);
}

int plugin_free(CUdeviceptr pointer, int looks_up) {
  if (!looks_up) return cuMemFree(pointer);
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return -1;
  const auto call = (CUresult(*)(CUdeviceptr))dlsym(library, "cuMemFree_v2");
  return call == nullptr ? -1 : call(pointer);
}

}  // extern "C"
