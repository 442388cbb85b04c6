// Goal: programs load known kernels from PTX and launch them, alone, in graphs that they build and
// in graphs that they capture.

#include "simcuda/simcuda_test.hpp"

#include "base/clock.hpp"
#include "support/test_kernels.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace vma {
namespace {

class SimcudaKernels : public SimcudaTest {
 protected:
  void SetUp() override {
    SimcudaTest::SetUp();
    ASSERT_EQ(cuModuleLoadData(&module_, fill_kernel().ptx.c_str()), CUDA_SUCCESS);
    begin_ = allocate(words * sizeof(std::uint64_t));
    stream_ = new_stream();
  }
  void TearDown() override {
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(begin_), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
    SimcudaTest::TearDown();
  }

  static constexpr std::uint64_t words = 1000;

  CUfunction function(const char* entry) const {
    CUfunction found = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&found, module_, entry), CUDA_SUCCESS) << entry;
    return found;
  }
  /// Adds `value` to each word.
  void add(CUstream stream, std::uint64_t value) {
    CUdeviceptr begin = begin_;
    std::uint64_t count = words;
    void* parameters[] = {&begin, &count, &value};
    EXPECT_EQ(
        cuLaunchKernel(function("vmart_add"), 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr),
        CUDA_SUCCESS);
  }
  std::uint64_t word(std::size_t number) {
    std::uint64_t found = 0;
    EXPECT_EQ(cuMemcpyDtoH(&found, begin_ + number * sizeof found, sizeof found), CUDA_SUCCESS);
    return found;
  }
  void clear() { EXPECT_EQ(cuMemsetD8(begin_, 0, words * sizeof(std::uint64_t)), CUDA_SUCCESS); }

  CUmodule module_ = nullptr;
  CUdeviceptr begin_ = 0;
  CUstream stream_ = nullptr;
};

/// The parameters of a kernel node that adds a value to each word.
class AddNode {
 public:
  AddNode(CUfunction function, CUdeviceptr begin, std::uint64_t count, std::uint64_t value)
      : begin_(begin), count_(count), value_(value) {
    parameters.func = function;
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = 32;
    parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = pointers_.data();
  }
  AddNode(const AddNode&) = delete;
  AddNode& operator=(const AddNode&) = delete;

  CUDA_KERNEL_NODE_PARAMS parameters{};

 private:
  CUdeviceptr begin_;
  std::uint64_t count_, value_;
  std::array<void*, 3> pointers_{&begin_, &count_, &value_};
};

TEST_F(SimcudaKernels, TakeTheirArgumentsByPointersOrFromABuffer) {
  CUdeviceptr begin = begin_;
  std::uint64_t count = words, seed = 40;
  void* parameters[] = {&begin, &count, &seed};
  EXPECT_EQ(
      cuLaunchKernel(function("vmart_fill"), 4, 1, 1, 64, 1, 1, 0, stream_, parameters, nullptr),
      CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(word(999), 40 + 999u);
  std::array<std::uint64_t, 3> buffer{begin, 1, 3};
  std::size_t size = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &size, CU_LAUNCH_PARAM_END};
  EXPECT_EQ(cuLaunchKernel(function("vmart_add"), 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, extra),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(word(0), 43u);
  EXPECT_EQ(word(1), 41u);
  std::size_t offset = 0;
  EXPECT_EQ(cuFuncGetParamInfo(function("vmart_fill"), 2, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 16u);
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(cuFuncGetParamInfo(function("vmart_fill"), 3, &offset, &size),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SimcudaKernels, EndForAProgramThatPolls) {
  std::uint64_t nanoseconds = 500'000'000;  // Far more than the polls take in simulated time.
  void* parameters[] = {&nanoseconds};
  EXPECT_EQ(
      cuLaunchKernel(function("vmart_spin"), 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr),
      CUDA_SUCCESS);
  const SteadyClock clock;
  const TimePoint limit = clock.now() + std::chrono::seconds(30);
  CUresult answer = CUDA_ERROR_NOT_READY;
  for (Poll poll; answer == CUDA_ERROR_NOT_READY && clock.now() < limit; poll.pause()) {
    answer = cuStreamQuery(stream_);
  }
  EXPECT_EQ(answer, CUDA_SUCCESS);
}

TEST_F(SimcudaKernels, UnknownOnesAreNotFound) {
  CUfunction found = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&found, module_, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuModuleGetFunction(&found, module_, "vmart_live_digest"), CUDA_ERROR_NOT_FOUND)
      << "known, but not in this text";
  CUmodule changed = nullptr;
  ASSERT_EQ(cuModuleLoadData(&changed, (fill_kernel().ptx + "// changed").c_str()), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&found, changed, "vmart_fill"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuModuleUnload(changed), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&found, reinterpret_cast<CUmodule>(16), "vmart_fill"),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuFuncLoad(reinterpret_cast<CUfunction>(16)), CUDA_ERROR_INVALID_HANDLE);
  std::array<char, 64> log{};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  CUmodule bad = nullptr;
  EXPECT_EQ(cuModuleLoadDataEx(&bad, "int main() {}", 2, options, values), CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(log[0], '\0');
  const std::uint64_t zeros[2] = {};
  EXPECT_EQ(cuModuleLoadData(&bad, zeros), CUDA_ERROR_INVALID_IMAGE);
}

TEST_F(SimcudaKernels, OfAnUnloadedModuleAreRefused) {
  CUmodule other = nullptr;
  ASSERT_EQ(cuModuleLoadData(&other, fill_kernel().ptx.c_str()), CUDA_SUCCESS);
  CUfunction found = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&found, other, "vmart_fill"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(other), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncLoad(found), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleUnload(other), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SimcudaKernels, OfALibraryRunInTheContextOfTheirStream) {
  CUlibrary library = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&library, fill_kernel().ptx.c_str(), nullptr, nullptr, 0, nullptr,
                              nullptr, 0),
            CUDA_SUCCESS);
  CUkernel kernel = nullptr;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "vmart_store"), CUDA_SUCCESS);
  std::size_t offset = 0, size = 0;
  EXPECT_EQ(cuKernelGetParamInfo(kernel, 1, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 8u);
  EXPECT_EQ(cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), 1, &offset, &size),
            CUDA_ERROR_INVALID_HANDLE);
  CUdeviceptr begin = begin_;
  std::uint64_t value = 77;
  void* parameters[] = {&begin, &value};
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream_,
                           parameters, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(word(0), 77u);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(SimcudaKernels, RunInAGraphWhoseNodesAreUpdated) {
  clear();
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 8, 0), CUDA_SUCCESS);
  auto* const flag = static_cast<volatile std::uint64_t*>(pinned);
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  write.writeValue.address = reinterpret_cast<CUdeviceptr>(pinned);
  write.writeValue.value64 = 5;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
  batch.ctx = context();
  batch.count = 1;
  batch.paramArray = &write;
  const AddNode first(function("vmart_add"), begin_, words, 1);
  CUgraph graph = nullptr;
  CUgraphNode kernel_node = nullptr, batch_node = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddKernelNode(&kernel_node, graph, nullptr, 0, &first.parameters), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddBatchMemOpNode(&batch_node, graph, &kernel_node, 1, &batch), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  const AddNode later(function("vmart_add"), begin_, words, 100);
  write.writeValue.value64 = 6;
  EXPECT_EQ(cuGraphExecKernelNodeSetParams(exec, kernel_node, &later.parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, batch_node, &batch), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecKernelNodeSetParams(exec, batch_node, &later.parameters),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(word(3), 101u);
  EXPECT_EQ(*flag, 6u);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

TEST_F(SimcudaKernels, AreCapturedWithTheirUserObjects) {
  clear();
  int destroyed = 0;
  CUuserObject object = nullptr;
  const auto destroy = [](void* count) { ++*static_cast<int*>(count); };
  ASSERT_EQ(cuUserObjectCreate(&object, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  add(stream_, 7);
  CUstreamCaptureStatus status{};
  EXPECT_EQ(cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  cuuint64_t id = 0;
  CUgraph capturing = nullptr, graph = nullptr;
  EXPECT_EQ(cuStreamGetCaptureInfo(stream_, &status, &id, &capturing, nullptr, nullptr, nullptr),
            CUDA_SUCCESS);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(cuGraphRetainUserObject(capturing, object, 1, CU_GRAPH_USER_OBJECT_MOVE), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(graph, capturing);
  EXPECT_EQ(word(0), 0u) << "captured work has run";
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  for (int launch = 0; launch < 3; ++launch) EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(word(999), 21u);
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(SimcudaKernels, AnInvalidCaptureIsReported) {
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUstreamCaptureStatus status{};
  EXPECT_EQ(cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vma
