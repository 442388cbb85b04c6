// A libcuda.so.1 of two GPUs, for tests of libraries that do nothing without one (cuda.core,
// Numba). It has contexts, streams that it takes as they are, host memory, and copies, which a
// function of the test makes at once. Other calls are not found. fake_driver.py loads it.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

enum Result {
  success = 0,
  invalid_value = 1,
  invalid_context = 201,
  not_found = 500,
  not_supported = 801
};
constexpr int gpus = 2;
int contexts[gpus];  // Their addresses are the handles.
thread_local std::vector<void*> stack;

using Copy = int (*)(std::uint64_t target, std::uint64_t source, std::size_t bytes);
Copy copy_function = nullptr;

int copy(std::uint64_t target, std::uint64_t source, std::size_t bytes) {
  return copy_function == nullptr ? success : copy_function(target, source, bytes);
}

std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

extern "C" {

void fake_driver_copies(Copy function) {
  copy_function = function;
}

int cuInit(unsigned) {
  return success;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}

int cuGetErrorName(int, const char** text) {
  *text = "FAKE_ERROR";
  return success;
}

int cuGetErrorString(int, const char** text) {
  *text = "an error of the fake driver";
  return success;
}

int cuDeviceGetCount(int* count) {
  *count = gpus;
  return success;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < gpus ? success : invalid_value;
}

int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "fake");
  return success;
}

int cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memset(uuid, device, 16);
  return success;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 1;  // Compute capability 9.0.
  return success;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts[device];
  return success;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  return success;
}

int cuDevicePrimaryCtxReset_v2(int) {
  return success;
}

int cuCtxGetCurrent(void** context) {
  *context = stack.empty() ? nullptr : stack.back();
  return success;
}

int cuCtxSetCurrent(void* context) {
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return success;
}

int cuCtxPushCurrent_v2(void* context) {
  stack.push_back(context);
  return success;
}

int cuCtxPopCurrent_v2(void** context) {
  if (stack.empty()) return invalid_context;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return success;
}

int cuCtxGetDevice(int* device) {
  if (stack.empty()) return invalid_context;
  *device = static_cast<int>(static_cast<int*>(stack.back()) - contexts);
  return success;
}

int cuCtxSynchronize() {
  return success;
}

int cuStreamGetCtx(void*, void** context) {
  *context = &contexts[0];
  return success;
}

int cuStreamSynchronize(void*) {
  return success;
}

int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 37;
  return success;
}

int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  *pointer = std::malloc(bytes);
  return success;
}

int cuMemAllocHost_v2(void** pointer, std::size_t bytes) {
  return cuMemHostAlloc(pointer, bytes, 0);
}

int cuMemFreeHost(void* pointer) {
  std::free(pointer);
  return success;
}

/// Every pointer is memory of GPU 0.
int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, std::uint64_t) {
  constexpr int memory_type = 2;
  constexpr int is_managed = 8;
  constexpr int device_ordinal = 9;
  for (unsigned i = 0; i < count; ++i) {
    int& value = *static_cast<int*>(values[i]);
    if (attributes[i] == memory_type) value = 2;
    if (attributes[i] == is_managed || attributes[i] == device_ordinal) value = 0;
  }
  return success;
}

int cuIpcOpenMemHandle_v2(std::uint64_t*, const void*, unsigned) {
  return not_supported;
}

int cuMemcpyHtoD_v2(std::uint64_t target, const void* source, std::size_t bytes) {
  return copy(target, address(source), bytes);
}

int cuMemcpyDtoH_v2(void* target, std::uint64_t source, std::size_t bytes) {
  return copy(address(target), source, bytes);
}

int cuMemcpyAsync(std::uint64_t target, std::uint64_t source, std::size_t bytes, void*) {
  return copy(target, source, bytes);
}

int cuMemsetD8Async(std::uint64_t target, unsigned char value, std::size_t bytes, void*) {
  const std::vector<unsigned char> values(bytes, value);
  return copy(target, address(values.data()), bytes);
}

int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* status) {
  static void* const self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  *function = dlsym(self, name);  // The oldest version that is here.
  if (*function == nullptr) *function = dlsym(self, (std::string(name) + "_v2").c_str());
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? not_found : success;
}
}
