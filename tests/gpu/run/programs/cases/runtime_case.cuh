#pragma once

/* For cases that use CUDA's runtime. */

#include "case.cuh"

#include <cuda_runtime.h>

#define RT(call)                                                      \
  do {                                                                \
    const cudaError_t e_ = (call);                                    \
    NEED(e_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(e_)); \
  } while (0)
