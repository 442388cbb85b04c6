/* What the parts of mapping_program.cpp do again and again. */
#pragma once

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

inline constexpr size_t mib = size_t{1} << 20;

inline void check(CUresult result, const char *call, int line) {
  if (result == CUDA_SUCCESS) return;
  printf("line %d: %s returned %d\n", line, call, (int)result);
  exit(1);
}
#define CALL(call) check(call, #call, __LINE__)

inline CUstream stream;
inline std::vector<unsigned char> host_bytes(20 * mib);

inline CUmemAllocationProp properties_for(int types) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = (CUmemAllocationHandleType)types;
  return properties;
}

inline void set_access(CUdeviceptr begin, size_t bytes, int device) {
  CUmemAccessDesc entry = {};
  entry.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  entry.location.id = device;
  entry.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CALL(cuMemSetAccess(begin, bytes, &entry, 1));
}

inline CUmemGenericAllocationHandle create(size_t bytes, int types = 0) {
  const CUmemAllocationProp properties = properties_for(types);
  CUmemGenericAllocationHandle handle = 0;
  CALL(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

inline void map(CUdeviceptr begin, size_t bytes, CUmemGenericAllocationHandle handle) {
  CALL(cuMemMap(begin, bytes, 0, handle, 0));
  set_access(begin, bytes, 0);
}

inline CUdeviceptr reserve(size_t bytes) {
  CUdeviceptr begin = 0;
  CALL(cuMemAddressReserve(&begin, bytes, 0, 0, 0));
  return begin;
}

inline void fill(CUdeviceptr begin, size_t bytes, unsigned value) {
  CALL(cuMemsetD8Async(begin, (unsigned char)value, bytes, stream));
}

inline void expect_filled(CUdeviceptr begin, size_t bytes, unsigned value, const char *what) {
  CALL(cuMemcpyDtoHAsync(host_bytes.data(), begin, bytes, stream));
  CALL(cuStreamSynchronize(stream));
  for (size_t i = 0; i < bytes; ++i) {
    if (host_bytes[i] == (unsigned char)value) continue;
    printf("%s has %d at %zu, not %d\n", what, host_bytes[i], i, (unsigned char)value);
    exit(1);
  }
}

inline unsigned next_random() {
  static unsigned state = 12345;
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}
