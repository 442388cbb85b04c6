#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace vma {

/// Opens the library and a context on GPU 0, which is current in the test's thread.
class SimcudaTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

  CUcontext context() const { return context_; }
  static CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr begin = 0;
    EXPECT_EQ(cuMemAlloc(&begin, bytes), CUDA_SUCCESS);
    return begin;
  }
  static CUstream new_stream(unsigned int flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  static CUevent new_event(unsigned int flags = CU_EVENT_DEFAULT) {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, flags), CUDA_SUCCESS);
    return event;
  }

 private:
  CUcontext context_ = nullptr;
};

}  // namespace vma
