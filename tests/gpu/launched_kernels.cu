// Kernels that `real_launches_test.cpp` builds with nvcc and loads. cudart launches them, and the
// driver knows them by both kinds of handles.
#include <cuda_runtime.h>
struct View { int rows; float* data; double scale; };
__global__ void three(const float* first, View view, int count, float* last) {
  if (threadIdx.x < count) last[threadIdx.x] = first[threadIdx.x] + view.data[threadIdx.x];
}
__global__ void nothing() {}
extern "C" int enqueue(void* stream, float* a, float* b, float* c) {
  three<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(a, View{1, b, 2.0}, 32, c);
  nothing<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>();
  return cudaGetLastError();
}
extern "C" int kernel_of(void** out) {  // A CUkernel.
  return cudaGetKernel(reinterpret_cast<cudaKernel_t*>(out), reinterpret_cast<void*>(&three));
}
extern "C" int function_of(void** out) {  // A CUfunction.
  return cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(out), reinterpret_cast<void*>(&three));
}
extern "C" int empty_kernel_of(void** out) {
  return cudaGetKernel(reinterpret_cast<cudaKernel_t*>(out), reinterpret_cast<void*>(&nothing));
}
extern "C" int empty_function_of(void** out) {
  return cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(out), reinterpret_cast<void*>(&nothing));
}
