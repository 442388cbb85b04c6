#include "interpose/graphs/graph_operands.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/vmart_library.hpp"

#include <cstddef>
#include <map>

namespace vma::interpose {
namespace {

/// A call that the driver may lack.
template <typename Call, typename... Args>
bool succeeds(Call call, Args... args) {
  return call != nullptr && call(args...) == CUDA_SUCCESS;
}

/// Appends what the graph copies and fills.
void add_operands_of(const DriverLibrary& driver, CUgraph graph,
                     std::vector<CUdeviceptr>& operands) {
  std::size_t count = 0;
  if (!succeeds(driver.cuGraphGetNodes_plain, graph, nullptr, &count)) return;
  std::vector<CUgraphNode> nodes(count);
  if (!succeeds(driver.cuGraphGetNodes_plain, graph, nodes.data(), &count)) return;
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_MEMCPY3D copy{};
    CUDA_MEMSET_NODE_PARAMS fill{};
    CUgraph child = nullptr;
    if (!succeeds(driver.cuGraphNodeGetType_plain, node, &type)) continue;
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY &&
        succeeds(driver.cuGraphMemcpyNodeGetParams_plain, node, &copy)) {
      operands.insert(operands.end(), {copy.srcDevice, copy.dstDevice});
    } else if (type == CU_GRAPH_NODE_TYPE_MEMSET &&
               succeeds(driver.cuGraphMemsetNodeGetParams_plain, node, &fill)) {
      operands.push_back(fill.dst);
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
               succeeds(driver.cuGraphChildGraphNodeGetGraph_plain, node, &child)) {
      add_operands_of(driver, child, operands);
    }
  }
}

}  // namespace

std::vector<CUdeviceptr> operands_of(CUgraph graph) {
  std::vector<CUdeviceptr> operands;
  const DriverLibrary* const driver = DriverLibrary::get();
  if (driver != nullptr) add_operands_of(*driver, graph, operands);
  return operands;
}

bool bring_home(const std::vector<CUdeviceptr>& operands) {
  std::map<CUdeviceptr, int> homes;  // Each allocation once.
  for (const CUdeviceptr operand : operands) {
    if (const auto memory = ProgramMemory::get().find(operand)) {
      homes.emplace(memory->begin, memory->device);
    }
  }
  bool moved = false;
  for (const auto& [begin, device] : homes) {
    const vmart_status status = VmartLibrary::loaded()->vmart_migrate(
        reinterpret_cast<void*>(begin), 0, 0, {VMART_GPU, device}, nullptr);
    moved = moved || status == VMART_OK;
  }
  return moved;
}

}  // namespace vma::interpose
