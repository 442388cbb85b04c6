// The sections of every_call.cu about streams, graphs, contexts, threads and processes.
#pragma once

#include "every_call_memory.cuh"

#include <cuda.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace {

Sum forty_streams() {
  constexpr int count = 40, part = words / count;
  Word *a = allocate(), *b = allocate();
  fill<<<256, 256>>>(a, words, 21);
  CALL(cudaMemset(b, 0, bytes));
  CALL(cudaDeviceSynchronize());
  cudaStream_t streams[count];
  cudaEvent_t events[count];
  for (int i = 0; i < count; ++i) {
    CALL(cudaStreamCreateWithPriority(
        &streams[i], i % 2 == 0 ? cudaStreamNonBlocking : cudaStreamDefault, -(i % 3)));
    CALL(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
  }
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < count; ++i) {
      if (i > 0) CALL(cudaStreamWaitEvent(streams[i], events[i - 1], 0));
      mix<<<16, 256, 0, streams[i]>>>(a + i * part, b + i * part, part, step + i);
      CALL(cudaMemcpyAsync(a + i * part, b + i * part, part * sizeof(Word),
                           cudaMemcpyDeviceToDevice, streams[i]));
      CALL(cudaEventRecord(events[i], streams[i]));
    }
  }
  CALL(cudaDeviceSynchronize());
  const Sum sum = sum_of_device(a, count * part);
  for (int i = 0; i < count; ++i) {
    CALL(cudaStreamDestroy(streams[i]));
    CALL(cudaEventDestroy(events[i]));
  }
  CALL(cudaFree(a));
  CALL(cudaFree(b));
  return sum;
}

Sum captured_graph() {
  Word *a = allocate(), *b = allocate();
  cudaStream_t first, second;
  cudaEvent_t forked, joined;
  CALL(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CALL(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  fill<<<256, 256, 0, first>>>(a, words, 5);
  cudaGraph_t graph;
  cudaGraphExec_t launched;
  CALL(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  CALL(cudaEventRecord(forked, first));
  CALL(cudaStreamWaitEvent(second, forked, 0));
  mix<<<256, 256, 0, first>>>(a, b, words / 2, 3);
  CALL(cudaMemcpyAsync(b + words / 2, a + words / 2, bytes / 2, cudaMemcpyDeviceToDevice, second));
  CALL(cudaEventRecord(joined, second));
  CALL(cudaStreamWaitEvent(first, joined, 0));
  mix<<<256, 256, 0, first>>>(b, a, words, 5);
  CALL(cudaMemsetAsync(b, 1, 4096, first));
  CALL(cudaStreamEndCapture(first, &graph));
  CALL(cudaGraphInstantiate(&launched, graph, 0));
  for (int step = 0; step < 20; ++step) CALL(cudaGraphLaunch(launched, first));
  CALL(cudaStreamSynchronize(first));
  const Sum sum = sum_of_device(a);
  CALL(cudaGraphExecDestroy(launched));
  CALL(cudaGraphDestroy(graph));
  CALL(cudaEventDestroy(forked));
  CALL(cudaEventDestroy(joined));
  CALL(cudaStreamDestroy(first));
  CALL(cudaStreamDestroy(second));
  CALL(cudaFree(a));
  CALL(cudaFree(b));
  return sum;
}

// Nodes that are made one by one, with memory of the graph's own, and whose parameters change later.
Sum built_graph() {
  Word *a = allocate(), *b = allocate();
  int count = words;
  Word factor = 3;
  void* arguments[] = {&a, &b, &count, &factor};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(mix);
  kernel.gridDim = dim3(256);
  kernel.blockDim = dim3(256);
  kernel.kernelParams = arguments;
  cudaGraph_t graph;
  cudaGraphNode_t mixing, copying;
  cudaGraphExec_t launched;
  CALL(cudaGraphCreate(&graph, 0));
  CALL(cudaGraphAddKernelNode(&mixing, graph, nullptr, 0, &kernel));
  CALL(cudaGraphAddMemcpyNode1D(&copying, graph, &mixing, 1, a, b, bytes, cudaMemcpyDeviceToDevice));
  CALL(cudaGraphInstantiate(&launched, graph, 0));
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  fill<<<256, 256, 0, stream>>>(a, words, 15);
  for (int step = 0; step < 8; ++step) {
    factor = 3 + step;
    CALL(cudaGraphExecKernelNodeSetParams(launched, mixing, &kernel));
    CALL(cudaGraphExecMemcpyNodeSetParams1D(launched, copying, a, b, bytes - 4096 * step,
                                            cudaMemcpyDeviceToDevice));
    CALL(cudaGraphLaunch(launched, stream));
  }
  CALL(cudaStreamSynchronize(stream));
  const Sum sum = sum_of_device(a);
  CALL(cudaGraphExecDestroy(launched));
  CALL(cudaGraphDestroy(graph));
  CALL(cudaStreamDestroy(stream));
  CALL(cudaFree(a));
  CALL(cudaFree(b));
  return sum;
}

Sum callbacks() {
  static std::atomic<int> called;
  called = 0;
  Word* memory = allocate();
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  for (int step = 0; step < 10; ++step) {
    fill<<<256, 256, 0, stream>>>(memory, words, step);
    CALL(cudaLaunchHostFunc(stream, [](void*) { ++called; }, nullptr));
    CALL(cudaStreamAddCallback(
        stream, [](cudaStream_t, cudaError_t, void*) { ++called; }, nullptr, 0));
  }
  CALL(cudaStreamSynchronize(stream));
  const Sum sum = sum_of_device(memory) * 31 + called;
  CALL(cudaStreamDestroy(stream));
  CALL(cudaFree(memory));
  return sum;
}

void check_driver(CUresult result, int line) {
  if (result == CUDA_SUCCESS) return;
  std::printf("line %d: the driver returned %d\n", line, static_cast<int>(result));
  std::fflush(stdout);
  std::_Exit(1);
}
#define DRIVER(call) check_driver(call, __LINE__)

// The driver finds its calls through the runtime, so that the program needs no library but that.
template <typename Function>
Function driver_call(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how;
  CALL(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &how));
  return reinterpret_cast<Function>(found);
}

// A context beside the primary one, destroyed with memory and a stream in it.
Sum own_context() {
  const auto create = driver_call<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate", 3020);
  const auto destroy = driver_call<CUresult (*)(CUcontext)>("cuCtxDestroy", 4000);
  const auto pop = driver_call<CUresult (*)(CUcontext*)>("cuCtxPopCurrent", 4000);
  CUcontext context = nullptr, popped = nullptr;
  DRIVER(create(&context, 0, 0));
  Word *memory = allocate(), *other = allocate();
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int step = 0; step < 6; ++step) {
    fill<<<256, 256, 0, stream>>>(memory, words, step);
    mix<<<256, 256, 0, stream>>>(memory, other, words, 17);
  }
  CALL(cudaStreamSynchronize(stream));
  const Sum sum = sum_of_device(other);
  CALL(cudaFree(memory));
  DRIVER(pop(&popped));
  DRIVER(destroy(context));
  CALL(cudaSetDevice(0));
  return sum;
}

// The other GPU reads, writes and copies what the first has. The same sum with one GPU.
Sum two_gpus() {
  int gpus = 0, reaches = 0;
  CALL(cudaGetDeviceCount(&gpus));
  const int other = gpus > 1 ? 1 : 0;
  Word *a = allocate(), *b = nullptr;
  fill<<<256, 256>>>(a, words, 33);
  CALL(cudaDeviceSynchronize());
  CALL(cudaSetDevice(other));
  b = allocate();
  for (int step = 0; step < 4; ++step) {
    CALL(cudaMemcpyPeer(b, other, a, 0, bytes));
    fill<<<256, 256>>>(b, words, step + 40);
    CALL(cudaMemcpyPeerAsync(a, 0, b, other, bytes / 2, 0));
    CALL(cudaDeviceSynchronize());
  }
  if (other != 0) CALL(cudaDeviceCanAccessPeer(&reaches, other, 0));
  if (reaches != 0) {
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(0, 0);
    if (enabled != cudaErrorPeerAccessAlreadyEnabled) CALL(enabled);
    cudaGetLastError();
    mix<<<256, 256>>>(a, b, words, 19);
    CALL(cudaDeviceSynchronize());
    CALL(cudaMemcpy(a, b, bytes, cudaMemcpyDefault));
    // A reset of the first GPU must not leave half of it enabled.
    if (enabled == cudaSuccess) CALL(cudaDeviceDisablePeerAccess(0));
  } else {
    Word* c = allocate();
    CALL(cudaMemcpyPeer(b, other, a, 0, bytes));
    mix<<<256, 256>>>(b, c, words, 19);
    CALL(cudaMemcpyPeer(a, 0, c, other, bytes));
    CALL(cudaFree(c));
  }
  CALL(cudaDeviceSynchronize());
  CALL(cudaFree(b));
  CALL(cudaSetDevice(0));
  const Sum sum = sum_of_device(a);
  CALL(cudaFree(a));
  return sum;
}

Sum one_thread(int number) {
  CALL(cudaSetDevice(0));
  Word *a = allocate(), *b = allocate();
  for (int step = 0; step < 6; ++step) {
    fill<<<64, 256, 0, cudaStreamPerThread>>>(a, words, number * 10 + step);
    mix<<<64, 256, 0, cudaStreamPerThread>>>(a, b, words, number);
    CALL(cudaStreamSynchronize(cudaStreamPerThread));
  }
  const Sum sum = sum_of_device(b);
  CALL(cudaFree(a));
  CALL(cudaFree(b));
  return sum;
}

Sum threads() {
  constexpr int count = 4;
  Sum sums[count] = {};
  std::vector<std::thread> running;
  for (int i = 0; i < count; ++i) running.emplace_back([&sums, i] { sums[i] = one_thread(i); });
  Sum sum = 7;
  for (int i = 0; i < count; ++i) {
    running[i].join();
    sum = sum * 31 + sums[i];
  }
  return sum;
}

// A child that asks for CUDA and gets none, one that runs another program, and work beside them.
Sum fork_and_exec() {
  Word *a = allocate(), *b = allocate();
  fill<<<256, 256>>>(a, words, 50);
  std::fflush(stdout);
  const pid_t asking = fork();
  if (asking == 0) {
    void* memory = nullptr;
    _exit(static_cast<int>(cudaMalloc(&memory, bytes)) % 100);
  }
  const pid_t running = fork();
  if (running == 0) {
    execlp("true", "true", nullptr);
    _exit(127);
  }
  mix<<<256, 256>>>(a, b, words, 23);
  int asked = -1, ran = -1;
  waitpid(asking, &asked, 0);
  waitpid(running, &ran, 0);
  CALL(cudaDeviceSynchronize());
  const Sum sum = sum_of_device(b);
  CALL(cudaFree(a));
  CALL(cudaFree(b));
  return (sum * 31 + WEXITSTATUS(asked)) * 31 + WEXITSTATUS(ran);
}

}  // namespace
