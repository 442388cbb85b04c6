// The sections of every_call.cu about memory, and what all sections need. Each returns a sum over what
// it computed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Sum = unsigned long long;
using Word = std::uint32_t;

constexpr int words = 2 << 20;  // 8 MiB.
constexpr std::size_t bytes = words * sizeof(Word);

inline void check(cudaError_t result, const char* call, int line) {
  if (result == cudaSuccess) return;
  std::printf("line %d: %s returned %d, %s\n", line, call, static_cast<int>(result),
              cudaGetErrorString(result));
  std::fflush(stdout);
  std::_Exit(1);
}
#define CALL(call) check(call, #call, __LINE__)

__global__ void fill(Word* out, int count, Word seed) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    out[i] = (i + seed) * 2654435761u;
  }
}

// Reads where it does not write, so that a lost write or a stale page shows.
__global__ void mix(const Word* in, Word* out, int count, Word factor) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const int other = static_cast<int>((i * 7919ll + 13) % count);
    out[i] = in[i] * factor + (in[other] >> 3);
  }
}

inline Sum sum_of(const Word* host, std::size_t count, Sum sum = 14695981039346656037ull) {
  for (std::size_t i = 0; i < count; ++i) sum = (sum ^ host[i]) * 1099511628211ull;
  return sum;
}

inline Sum sum_of_device(const Word* device, std::size_t count = words) {
  std::vector<Word> host(count);
  CALL(cudaMemcpy(host.data(), device, count * sizeof(Word), cudaMemcpyDeviceToHost));
  return sum_of(host.data(), count);
}

inline Word* allocate(std::size_t size = bytes) {
  Word* memory = nullptr;
  CALL(cudaMalloc(&memory, size));
  return memory;
}

Sum linear_copies() {
  Word *a = allocate(), *b = allocate(), *pinned = nullptr;
  CALL(cudaMallocHost(&pinned, bytes));
  for (int i = 0; i < words; ++i) pinned[i] = i * 77u;
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int step = 0; step < 6; ++step) {
    CALL(cudaMemcpyAsync(a, pinned, bytes, cudaMemcpyHostToDevice, stream));
    CALL(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream));
    CALL(cudaMemsetAsync(b + step * 1000, step, 4096, stream));
    mix<<<256, 256, 0, stream>>>(b, a, words, step + 3);
    CALL(cudaMemcpyAsync(pinned, a, bytes, cudaMemcpyDefault, stream));
    CALL(cudaStreamSynchronize(stream));
  }
  CALL(cudaMemcpy(b, pinned, bytes / 2, cudaMemcpyHostToDevice));
  CALL(cudaMemcpy(b + words / 2, a, bytes / 2, cudaMemcpyDeviceToDevice));
  const Sum sum = sum_of_device(b);
  CALL(cudaStreamDestroy(stream));
  CALL(cudaFreeHost(pinned));
  CALL(cudaFree(a));
  CALL(cudaFree(b));
  return sum;
}

Sum pitched_copies() {
  constexpr int width = 1500 * sizeof(Word), height = 1400;
  std::vector<Word> host(width / sizeof(Word) * height, 5);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] += i;
  Word *a = nullptr, *b = nullptr;
  std::size_t pitch_a = 0, pitch_b = 0;
  CALL(cudaMallocPitch(&a, &pitch_a, width, height));
  CALL(cudaMallocPitch(&b, &pitch_b, width, height));
  CALL(cudaMemcpy2D(a, pitch_a, host.data(), width, width, height, cudaMemcpyHostToDevice));
  CALL(cudaMemset2D(b, pitch_b, 0x5a, width, height));
  CALL(cudaMemcpy2DAsync(b, pitch_b, a, pitch_a, width / 2, height, cudaMemcpyDeviceToDevice, 0));
  cudaExtent extent = make_cudaExtent(256 * sizeof(Word), 64, 64);
  cudaPitchedPtr box{};
  CALL(cudaMalloc3D(&box, extent));
  CALL(cudaMemset3D(box, 7, extent));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(host.data(), 256 * sizeof(Word), 256, 64);
  copy.dstPtr = box;
  copy.extent = make_cudaExtent(256 * sizeof(Word), 64, 20);
  copy.kind = cudaMemcpyHostToDevice;
  CALL(cudaMemcpy3D(&copy));
  std::vector<Word> back(host.size()), box_back(256 * 64 * 64);
  CALL(cudaMemcpy2D(back.data(), width, b, pitch_b, width, height, cudaMemcpyDeviceToHost));
  copy.srcPtr = box;
  copy.dstPtr = make_cudaPitchedPtr(box_back.data(), 256 * sizeof(Word), 256, 64);
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToHost;
  CALL(cudaMemcpy3D(&copy));
  CALL(cudaFree(a));
  CALL(cudaFree(b));
  CALL(cudaFree(box.ptr));
  return sum_of(box_back.data(), box_back.size(), sum_of(back.data(), back.size()));
}

__global__ void read_textures(cudaTextureObject_t image, cudaTextureObject_t line, Word* out,
                              int width, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    out[i] = tex2D<Word>(image, i % width, i / width) * 3 + tex1Dfetch<Word>(line, i);
  }
}

// A texture over an array, which is the driver's, and one over linear memory, which can move.
Sum arrays_and_textures() {
  constexpr int width = 1024, height = 1024, count = width * height;
  std::vector<Word> host(count);
  for (int i = 0; i < count; ++i) host[i] = i * 31u;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<Word>();
  cudaArray_t array = nullptr;
  CALL(cudaMallocArray(&array, &format, width, height));
  CALL(cudaMemcpy2DToArray(array, 0, 0, host.data(), width * sizeof(Word), width * sizeof(Word),
                           height, cudaMemcpyHostToDevice));
  Word *linear = allocate(count * sizeof(Word)), *out = allocate(count * sizeof(Word));
  fill<<<256, 256>>>(linear, count, 9);
  cudaTextureDesc how{};
  how.readMode = cudaReadModeElementType;
  cudaResourceDesc of_array{}, of_line{};
  of_array.resType = cudaResourceTypeArray;
  of_array.res.array.array = array;
  of_line.resType = cudaResourceTypeLinear;
  of_line.res.linear = {linear, format, count * sizeof(Word)};
  cudaTextureObject_t image = 0, line = 0;
  CALL(cudaCreateTextureObject(&image, &of_array, &how, nullptr));
  CALL(cudaCreateTextureObject(&line, &of_line, &how, nullptr));
  for (int step = 0; step < 4; ++step) {
    read_textures<<<256, 256>>>(image, line, out, width, count);
    mix<<<256, 256>>>(out, linear, count, 5);
    CALL(cudaMemcpy2DToArray(array, 0, 0, out, width * sizeof(Word), width * sizeof(Word), height,
                             cudaMemcpyDeviceToDevice));
  }
  const Sum sum = sum_of_device(linear, count);
  CALL(cudaDestroyTextureObject(image));
  CALL(cudaDestroyTextureObject(line));
  CALL(cudaFreeArray(array));
  CALL(cudaFree(linear));
  CALL(cudaFree(out));
  return sum;
}

__device__ Word table[1 << 20];
__constant__ Word factors[256];

__global__ void use_symbols(Word* out, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    out[i] = out[i] * factors[i % 256] + table[i % (1 << 20)];
  }
}

Sum symbols() {
  Word *memory = allocate(), *address = nullptr;
  std::vector<Word> host(256, 3);
  fill<<<256, 256>>>(memory, words, 4);
  CALL(cudaMemcpyToSymbol(table, memory, sizeof table, 0, cudaMemcpyDeviceToDevice));
  CALL(cudaMemcpyToSymbol(factors, host.data(), sizeof factors));
  CALL(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), table));
  use_symbols<<<256, 256>>>(memory, words);
  mix<<<64, 256>>>(memory, address, 1 << 20, 7);
  use_symbols<<<256, 256>>>(memory, words);
  const Sum sum = sum_of_device(memory);
  CALL(cudaFree(memory));
  return sum;
}

Sum managed() {
  Word *shared = nullptr, *memory = allocate();
  CALL(cudaMallocManaged(&shared, bytes));
  for (int i = 0; i < words; ++i) shared[i] = i;
  for (int step = 0; step < 3; ++step) {
    mix<<<256, 256>>>(shared, memory, words, 11);
    CALL(cudaMemcpy(shared, memory, bytes, cudaMemcpyDefault));
    CALL(cudaDeviceSynchronize());
    shared[step] += 1;
  }
  CALL(cudaDeviceSynchronize());
  const Sum sum = sum_of(shared, words);
  CALL(cudaFree(shared));
  CALL(cudaFree(memory));
  return sum;
}

Sum registered() {
  std::vector<Word> host(words, 6);
  Word *memory = allocate(), *seen = nullptr, *mapped = nullptr, *mapped_seen = nullptr;
  CALL(cudaHostRegister(host.data(), bytes, cudaHostRegisterMapped));
  CALL(cudaHostGetDevicePointer(&seen, host.data(), 0));
  CALL(cudaHostAlloc(&mapped, bytes, cudaHostAllocMapped | cudaHostAllocWriteCombined));
  CALL(cudaHostGetDevicePointer(&mapped_seen, mapped, 0));
  fill<<<256, 256>>>(seen, words, 2);
  mix<<<256, 256>>>(seen, memory, words, 9);
  mix<<<256, 256>>>(memory, mapped_seen, words, 10);
  CALL(cudaMemcpyAsync(host.data(), mapped, bytes, cudaMemcpyDefault, 0));
  CALL(cudaDeviceSynchronize());
  const Sum sum = sum_of(host.data(), words);
  CALL(cudaHostUnregister(host.data()));
  CALL(cudaFreeHost(mapped));
  CALL(cudaFree(memory));
  return sum;
}

Sum pools() {
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t own = nullptr;
  CALL(cudaMemPoolCreate(&own, &properties));
  Word* memory = allocate();
  fill<<<256, 256, 0, stream>>>(memory, words, 12);
  for (int step = 0; step < 8; ++step) {
    Word *a = nullptr, *b = nullptr;
    CALL(cudaMallocAsync(&a, bytes, stream));
    CALL(cudaMallocFromPoolAsync(&b, bytes, own, stream));
    mix<<<256, 256, 0, stream>>>(memory, a, words, step + 2);
    mix<<<256, 256, 0, stream>>>(a, b, words, step + 3);
    CALL(cudaMemcpyAsync(memory, b, bytes, cudaMemcpyDeviceToDevice, stream));
    CALL(cudaFreeAsync(a, stream));
    CALL(cudaFreeAsync(b, stream));
  }
  CALL(cudaStreamSynchronize(stream));
  const Sum sum = sum_of_device(memory);
  CALL(cudaFreeAsync(memory, stream));  // It came from cudaMalloc, which is allowed.
  CALL(cudaStreamSynchronize(stream));
  CALL(cudaMemPoolDestroy(own));
  CALL(cudaStreamDestroy(stream));
  return sum;
}

// Allocations of 1 KiB to 32 MiB, freed out of order, with what the driver says about each.
Sum many_sizes() {
  constexpr int count = 60;
  Word* memory[count] = {};
  Sum sum = 1;
  for (int i = 0; i < count; ++i) {
    const std::size_t size = (std::size_t{1} << (10 + i % 16)) + 4 * i;
    memory[i] = allocate(size);
    fill<<<64, 256>>>(memory[i], static_cast<int>(size / 4), i);
    cudaPointerAttributes said{};
    CALL(cudaPointerGetAttributes(&said, memory[i]));
    sum = sum * 31 + said.type * 7 + said.device + (said.devicePointer == memory[i]);
    if (i >= 8) {
      const int freed = (i * 5) % (i + 1);
      CALL(cudaFree(memory[freed]));
      memory[freed] = nullptr;
    }
  }
  for (int i = 0; i < count; ++i) {
    if (memory[i] == nullptr) continue;
    sum = sum * 31 + sum_of_device(memory[i], (std::size_t{1} << (8 + i % 16)));
    CALL(cudaFree(memory[i]));
  }
  std::size_t free_bytes = 0, total = 0;
  CALL(cudaMemGetInfo(&free_bytes, &total));
  return sum * 31 + (free_bytes <= total);
}

}  // namespace
