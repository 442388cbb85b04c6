// The kernels of `gpu/pools/samples_test.cpp`; `make_ptx.sh` makes their PTX from this file.

__device__ int first_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ int stride() { return gridDim.x * blockDim.x; }

extern "C" __global__ void vmart_add_vectors(const float* a, const float* b, float* sum, int count) {
  for (int i = first_index(); i < count; i += stride()) sum[i] = a[i] + b[i];
}

extern "C" __global__ void vmart_scale(const int* from, int* to, int count) {
  for (int i = first_index(); i < count; i += stride()) to[i] = 2 * from[i];
}

extern "C" __global__ void vmart_square(const float* from, float* to, int count) {
  for (int i = first_index(); i < count; i += stride()) to[i] = from[i] * from[i];
}

extern "C" __global__ void vmart_negate(const float* from, float* to, int count) {
  for (int i = first_index(); i < count; i += stride()) to[i] = -from[i];
}
