// Goal: copies and fills in graphs that the program builds run and change as CUDA's do.

#include "simcuda/simcuda_test.hpp"

#include <cstdint>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t words = 64;
constexpr std::size_t bytes = words * sizeof(std::uint16_t);

class SimcudaGraphs : public SimcudaTest {
 protected:
  CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr target, unsigned value, unsigned unit = 2) const {
    CUDA_MEMSET_NODE_PARAMS what{};
    what.dst = target;
    what.value = value;
    what.elementSize = unit;
    what.width = bytes / unit;
    what.height = 1;
    return what;
  }
  CUDA_MEMCPY3D copy_of(CUdeviceptr target, CUdeviceptr source) const {
    CUDA_MEMCPY3D what{};
    what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    what.srcDevice = source;
    what.dstDevice = target;
    what.WidthInBytes = bytes;
    what.Height = what.Depth = 1;
    return what;
  }
  std::vector<std::uint16_t> read(CUdeviceptr from) const {
    std::vector<std::uint16_t> values(words);
    EXPECT_EQ(cuMemcpyDtoH(values.data(), from, bytes), CUDA_SUCCESS);
    return values;
  }
  /// A fill of `first`, which is then copied to `second`.
  CUgraph build(CUdeviceptr first, CUdeviceptr second, unsigned value, unsigned unit = 2) {
    CUgraph graph = nullptr;
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(first, value, unit);
    const CUDA_MEMCPY3D copy = copy_of(second, first);
    EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphAddMemsetNode(&filling_, graph, nullptr, 0, &fill, context()), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphAddMemcpyNode(&copying_, graph, &filling_, 1, &copy, context()), CUDA_SUCCESS);
    return graph;
  }

  CUgraphNode filling_ = nullptr;
  CUgraphNode copying_ = nullptr;
};

TEST_F(SimcudaGraphs, RunWithTheParametersOfTheLastChange) {
  const CUdeviceptr first = allocate(bytes), second = allocate(bytes);
  const CUstream stream = new_stream();
  CUgraph other = build(first, second, 9);
  CUgraph graph = build(first, second, 5);
  CUgraphExec exec = nullptr;
  CUgraphExecUpdateResultInfo info{};
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  const auto result = [&] {
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    return read(second);
  };
  EXPECT_EQ(result(), std::vector<std::uint16_t>(words, 5));
  const CUDA_MEMSET_NODE_PARAMS fill = fill_of(first, 700);
  EXPECT_EQ(cuGraphExecMemsetNodeSetParams(exec, filling_, &fill, context()), CUDA_SUCCESS);
  EXPECT_EQ(result(), std::vector<std::uint16_t>(words, 700));
  EXPECT_EQ(cuGraphExecUpdate(exec, other, &info), CUDA_SUCCESS);
  EXPECT_EQ(result(), std::vector<std::uint16_t>(words, 9));
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

// As on a GPU, the launch succeeds while nothing is mapped there: the nodes run later.
TEST_F(SimcudaGraphs, LookMemoryUpWhenTheyRun) {
  CUmemAllocationProp where{};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  const CUmemAccessDesc access{where.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  constexpr std::size_t page = 2 << 20;
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr mapped = 0;
  ASSERT_EQ(cuMemCreate(&memory, page, &where, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&mapped, page, 0, 0, 0), CUDA_SUCCESS);
  const auto map = [&] {
    EXPECT_EQ(cuMemMap(mapped, page, 0, memory, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemSetAccess(mapped, page, &access, 1), CUDA_SUCCESS);
  };
  map();
  const CUdeviceptr target = allocate(bytes), gate = allocate(sizeof(std::uint64_t));
  ASSERT_EQ(cuMemsetD8(gate, 0, sizeof(std::uint64_t)), CUDA_SUCCESS);
  CUgraph graph = build(mapped, target, 5, 1);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  const CUstream stream = new_stream(), other = new_stream();
  ASSERT_EQ(cuStreamWaitValue64(stream, gate, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(mapped, page), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyAsync(target, mapped, bytes, stream), CUDA_ERROR_INVALID_VALUE);
  map();
  ASSERT_EQ(cuStreamWriteValue64(other, gate, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(read(target), std::vector<std::uint16_t>(words, 0x505));
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(mapped, page), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(mapped, page), CUDA_SUCCESS);
}

TEST_F(SimcudaGraphs, AreRefusedWithMemoryThatWasFreed) {
  for (const unsigned unit : {1, 2}) {
    const CUdeviceptr first = allocate(bytes), second = allocate(bytes);
    CUgraph graph = build(first, second, 5, unit);
    CUgraphExec exec = nullptr;
    ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemFree(first), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphLaunch(exec, new_stream()), CUDA_ERROR_INVALID_VALUE) << unit;
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(second), CUDA_SUCCESS);
  }
}

TEST_F(SimcudaGraphs, TakeNoOperandsOfAnotherGpuOrOfSeveralRows) {
  const CUdeviceptr first = allocate(bytes), second = allocate(bytes);
  CUcontext there = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&there, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(there), CUDA_SUCCESS);
  const CUdeviceptr elsewhere = allocate(bytes);
  ASSERT_EQ(cuCtxPopCurrent(&there), CUDA_SUCCESS);
  CUgraph moved = build(first, elsewhere, 9);
  CUgraph graph = build(first, second, 5);
  CUgraphExec exec = nullptr;
  CUgraphExecUpdateResultInfo info{};
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  const auto set_copy = [&](CUDA_MEMCPY3D copy) {
    return cuGraphExecMemcpyNodeSetParams(exec, copying_, &copy, context());
  };
  EXPECT_EQ(set_copy(copy_of(first, second)), CUDA_SUCCESS);
  EXPECT_EQ(set_copy(copy_of(elsewhere, first)), CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D rows = copy_of(second, first);
  rows.WidthInBytes = 8;
  rows.Height = 2;
  rows.srcPitch = rows.dstPitch = 16;
  EXPECT_EQ(set_copy(rows), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecUpdate(exec, moved, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vma
