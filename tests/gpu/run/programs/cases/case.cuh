#pragma once

/* What all cases share. Each prints OK and exits with 0 if the driver's interface keeps its
 * promises, and with 77 if it cannot run here. CASE_SECONDS says for how long it goes on. */

#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define NEED(condition, ...)                   \
  do {                                         \
    if (!(condition)) {                        \
      std::printf("FAIL line %d: ", __LINE__); \
      std::printf(__VA_ARGS__);                \
      std::printf("\n");                       \
      std::fflush(stdout);                     \
      std::_Exit(1);                           \
    }                                          \
  } while (0)

#define DR(call)                                                              \
  do {                                                                        \
    const CUresult e_ = (call);                                               \
    NEED(e_ == CUDA_SUCCESS, "%s: CUresult %d", #call, static_cast<int>(e_)); \
  } while (0)

[[maybe_unused]] constexpr size_t mib = 1 << 20;

[[maybe_unused]] static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[maybe_unused]] static double limit_s() {
  const char* text = std::getenv("CASE_SECONDS");
  return text != nullptr ? std::atof(text) : 3;
}

[[maybe_unused]] static int skip(const char* why) {
  std::printf("SKIP %s\n", why);
  return 77;
}

[[maybe_unused]] static CUcontext contexts[2];
[[maybe_unused]] static int gpu_count = 0;

/* Primary contexts of one or two GPUs; that of GPU 0 is current. */
[[maybe_unused]] static void start() {
  DR(cuInit(0));
  DR(cuDeviceGetCount(&gpu_count));
  if (gpu_count > 2) gpu_count = 2;
  for (int g = 0; g < gpu_count; ++g) {
    CUdevice device;
    DR(cuDeviceGet(&device, g));
    DR(cuDevicePrimaryCtxRetain(&contexts[g], device));
  }
  DR(cuCtxSetCurrent(contexts[0]));
}
