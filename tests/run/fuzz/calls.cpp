#include "calls.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace fuzz {

DriverCalls driver;

bool find_driver(bool per_thread) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto resolve =
      reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (resolve == nullptr) return false;
  const cuuint64_t flags =
      per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
  const auto find = [&](const char* name, const char* version) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    const CUresult result = resolve(name, &found, std::atoi(version + 1), flags, &status);
    return result == CUDA_SUCCESS ? found : nullptr;
  };
#define ROW(call, version) \
  driver.f_##call = reinterpret_cast<decltype(driver.f_##call)>(find(#call, #version));
  FUZZ_CALLS(ROW)
#undef ROW
  driver.f_cuCtxCreate = reinterpret_cast<PFN_cuCtxCreate_v3020>(find("cuCtxCreate", "v3020"));
  return driver.f_cuInit != nullptr;
}

}  // namespace fuzz
