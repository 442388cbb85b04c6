// What the programs of newer_work.sh do where a call fails.
#pragma once

#include <vma/vmart.h>

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

constexpr int exit_skipped = 77;

[[noreturn]] inline void fail(const char* what, const char* why) {
  std::printf("FAILED %s: %s\n", what, why);
  std::exit(1);
}
inline void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) fail(what, cudaGetErrorString(result));
}
inline void check(CUresult result, const char* what) {
  const char* name = "";
  if (result == CUDA_SUCCESS) return;
  cuGetErrorName(result, &name);
  fail(what, name);
}
inline void check(vmart_status status, const char* what) {
  if (status != VMART_OK) fail(what, vmart_last_error());
}
#define CHECK(call) check(call, #call)
