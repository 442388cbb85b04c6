// Goal: streams, events and contexts order work as CUDA's do.

#include "simcuda/simcuda_test.hpp"

#include <atomic>
#include <cstdint>
#include <thread>

namespace vma {
namespace {

using SimcudaStreams = SimcudaTest;

/// A word of pinned memory, and a stream that waits for it.
class Barrier {
 public:
  explicit Barrier(CUstream stream) {
    void* pointer = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&pointer, sizeof(std::uint64_t), 0), CUDA_SUCCESS);
    word_ = static_cast<std::uint64_t*>(pointer);
    std::atomic_ref(*word_).store(0);
    EXPECT_EQ(cuStreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(word_), 1,
                                  CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
  }
  void open() { std::atomic_ref(*word_).store(1); }
  ~Barrier() {
    open();
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(word_), CUDA_SUCCESS);
  }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

 private:
  std::uint64_t* word_ = nullptr;
};

TEST_F(SimcudaStreams, WaitForEventsOfOthers) {
  const CUstream first = new_stream(), second = new_stream();
  const CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
  {
    Barrier barrier(first);
    EXPECT_EQ(cuEventRecord(event, first), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    barrier.open();
    EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(first), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(second), CUDA_SUCCESS);
}

TEST_F(SimcudaStreams, ZeroWaitsForBlockingStreamsOnly) {
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  const CUstream apart = new_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
  {
    Barrier barrier(blocking);
    EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  }
  {
    const Barrier barrier(apart);
    EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(apart), CUDA_SUCCESS);
}

TEST_F(SimcudaStreams, SynchronisingZeroWaitsForBlockingStreams) {
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  {
    Barrier barrier(blocking);
    std::atomic<bool> opened{false};
    std::thread opener([&] {
      for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
      opened = true;
      barrier.open();
    });
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    EXPECT_TRUE(opened);
    EXPECT_EQ(cuStreamQuery(blocking), CUDA_SUCCESS);
    opener.join();
  }
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

TEST_F(SimcudaStreams, CallTheHostInOrder) {
  const CUstream stream = new_stream();
  std::atomic<int> calls{0};
  const auto count = [](void* data) { ++*static_cast<std::atomic<int>*>(data); };
  {
    Barrier barrier(stream);
    EXPECT_EQ(cuLaunchHostFunc(stream, count, &calls), CUDA_SUCCESS);
    EXPECT_EQ(calls, 0);
    barrier.open();
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(SimcudaStreams, MeasureTimeBetweenEvents) {
  const CUstream stream = new_stream();
  const CUevent begin = new_event(), end = new_event();
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end), CUDA_ERROR_INVALID_HANDLE);
  {
    Barrier barrier(stream);
    EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, begin), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    barrier.open();
    EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cuEventDestroy(begin), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(end), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(SimcudaStreams, ContextsAreAStackOfTheThread) {
  CUcontext made = nullptr, top = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&made, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPushCurrent(made), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  std::thread other([&] { EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT); });
  other.join();
  EXPECT_EQ(cuCtxPopCurrent(&top), CUDA_SUCCESS);
  EXPECT_EQ(top, made);
  EXPECT_EQ(cuCtxGetCurrent(&top), CUDA_SUCCESS);
  EXPECT_EQ(top, context());
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPushCurrent(made), CUDA_ERROR_INVALID_CONTEXT) << "it was the last release";
}

}  // namespace
}  // namespace vma
