// Memory of the program: large allocations are vmart's, and what the driver says about them is what
// it would say about its own.
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/room.hpp"
#include "interpose/vmart_library.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <vector>

namespace vma::interpose {
namespace {

constexpr std::size_t pitch_bytes = 512;  // The driver's, for every element size.

/// Writes what ordinary memory of the driver would have; nothing if only the driver can tell.
std::optional<CUresult> answer(const ProgramAllocation& memory, CUdeviceptr pointer,
                               CUpointer_attribute attribute, void* data) noexcept {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *static_cast<CUcontext*>(data) = memory.context; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(data) = pointer; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<void**>(data) = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *static_cast<unsigned long long*>(data) = memory.id;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data) = memory.device; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *static_cast<CUdeviceptr*>(data) = memory.begin;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *static_cast<std::size_t*>(data) = memory.bytes; break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<int*>(data) = memory.synchronous_copies ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<int*>(data) = 0; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(data) = memory.has_handles() ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *static_cast<int*>(data) = 1; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) = memory.pool;
      break;
    default: return std::nullopt;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  if (out != nullptr) {
    const void* const caller = __builtin_return_address(0);
    if (const CUdeviceptr made = ProgramMemory::get().allocate(bytes, caller)) {
      *out = made;
      return CUDA_SUCCESS;
    }
    if (ProgramMemory::get().must_fit(bytes, caller)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return call_driver_with_room<EntryPoint::cuMemAlloc_v2>(RoomNeed::in_current_context(bytes), out,
                                                          bytes);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                                 std::size_t height, unsigned element_bytes) {
  const bool valid = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  RoomNeed need = RoomNeed::in_current_context();
  if (out != nullptr && pitch != nullptr && valid && height != 0 &&
      width <= SIZE_MAX - pitch_bytes) {
    const std::size_t row = (width + pitch_bytes - 1) / pitch_bytes * pitch_bytes;
    const std::size_t bytes = row <= SIZE_MAX / height ? row * height : 0;
    need.bytes = bytes;
    const void* const caller = __builtin_return_address(0);
    if (const CUdeviceptr made = ProgramMemory::get().allocate(bytes, caller)) {
      *out = made;
      *pitch = row;
      return CUDA_SUCCESS;
    }
    if (ProgramMemory::get().must_fit(bytes, caller)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return call_driver_with_room<EntryPoint::cuMemAllocPitch_v2>(need, out, pitch, width, height,
                                                               element_bytes);
}

CUresult hook_cuMemFree_v2(CUdeviceptr pointer) {
  if (ProgramMemory::get().free(pointer)) return CUDA_SUCCESS;
  return call_driver<EntryPoint::cuMemFree_v2>(pointer);
}

CUresult hook_cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  const CUresult result = call_driver<EntryPoint::cuMemGetInfo_v2>(free_bytes, total_bytes);
  CUcontext context = nullptr;
  int device = 0;
  if (result != CUDA_SUCCESS || free_bytes == nullptr ||
      !ProgramStreams::current(context, device)) {
    return result;
  }
  const long long seen =
      static_cast<long long>(*free_bytes) + ProgramMemory::get().hidden_bytes(device);
  *free_bytes = seen < 0 ? 0 : static_cast<std::size_t>(seen);
  if (total_bytes != nullptr) limit_memory_info(device, *free_bytes, *total_bytes);
  return CUDA_SUCCESS;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr inside) {
  const auto memory = ProgramMemory::get().find(inside);
  if (!memory) return call_driver<EntryPoint::cuMemGetAddressRange_v2>(begin, bytes, inside);
  if (begin != nullptr) *begin = memory->begin;
  if (bytes != nullptr) *bytes = memory->bytes;
  return CUDA_SUCCESS;
}

CUresult hook_cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
  const auto memory = ProgramMemory::get().find(pointer);
  if (data != nullptr && memory) {
    if (const auto result = answer(*memory, pointer, attribute, data)) return *result;
  }
  const CopyScope scope(memory.has_value());
  return call_driver<EntryPoint::cuPointerGetAttribute>(data, attribute, pointer);
}

CUresult hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                     CUdeviceptr pointer) {
  const auto memory = ProgramMemory::get().find(pointer);
  const CopyScope scope(memory.has_value());
  const CUresult result =
      call_driver<EntryPoint::cuPointerGetAttributes>(count, attributes, data, pointer);
  if (result != CUDA_SUCCESS || !memory) return result;
  // The answers to the others are the driver's.
  for (unsigned i = 0; i < count; ++i) answer(*memory, pointer, attributes[i], data[i]);
  return result;
}

CUresult hook_cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
  ProgramMemory& memory = ProgramMemory::get();
  if (!memory.find(pointer)) {
    return call_driver<EntryPoint::cuPointerSetAttribute>(value, attribute, pointer);
  }
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Set before memory is registered with a network card. The driver has no such attribute for
  // mapped memory.
  if (*static_cast<const unsigned*>(value) == 0) return CUDA_SUCCESS;
  return memory.note_export(pointer, true) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult hook_cuMemGetHandleForAddressRange(void* handle, CUdeviceptr pointer, std::size_t bytes,
                                            CUmemRangeHandleType type, unsigned long long flags) {
  ProgramMemory& memory = ProgramMemory::get();
  // Before the export, so that nothing moves between them.
  if (memory.find(pointer) && !memory.note_export(pointer, false)) return CUDA_ERROR_NOT_SUPPORTED;
  return call_driver<EntryPoint::cuMemGetHandleForAddressRange>(handle, pointer, bytes, type,
                                                                flags);
}

// --- Updates of graphs

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

std::vector<CUdeviceptr> operands_of(CUgraph graph) {
  std::vector<CUdeviceptr> operands;
  const DriverLibrary* const driver = DriverLibrary::get();
  if (driver != nullptr) add_operands_of(*driver, graph, operands);
  return operands;
}

/// What of the operands has left the GPU where the program believes it returns there. Returns false
/// if none of them can move.
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

/// The driver compares where the operands lie with where they lay at the instantiation. So if an
/// update fails, those that have moved go home, and it is tried again. `operands` finds them.
template <EntryPoint entry, typename Operands, typename... Args>
CUresult update_graph(Operands operands, Args... args) noexcept try {
  const auto update = [&] {
    const auto need = RoomNeed::in_current_context();
    return call_driver_with_room<entry, true>(need, args...);
  };
  const CUresult result = update();
  const bool refused =
      result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  if (!refused || VmartLibrary::loaded() == nullptr) return result;
  return bring_home(operands()) ? update() : result;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// Other reasons have nothing to do with memory.
bool is_about_memory(CUgraphExecUpdateResult why) noexcept {
  return why == CU_GRAPH_EXEC_UPDATE_ERROR || why == CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED ||
         why == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

}  // namespace

CUresult hook_cuGraphExecMemcpyNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                             const CUDA_MEMCPY3D* copy, CUcontext context) {
  const auto operands = [&] {
    return copy == nullptr ? std::vector<CUdeviceptr>()
                           : std::vector{copy->srcDevice, copy->dstDevice};
  };
  return update_graph<EntryPoint::cuGraphExecMemcpyNodeSetParams>(operands, graph, node, copy,
                                                                  context);
}

CUresult hook_cuGraphExecMemsetNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS* fill,
                                             CUcontext context) {
  const auto operands = [&] {
    return fill == nullptr ? std::vector<CUdeviceptr>() : std::vector{fill->dst};
  };
  return update_graph<EntryPoint::cuGraphExecMemsetNodeSetParams>(operands, graph, node, fill,
                                                                  context);
}

CUresult hook_cuGraphExecNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                       CUgraphNodeParams* parameters) {
  const auto operands = [&] {
    std::vector<CUdeviceptr> found;
    if (parameters == nullptr) return found;
    if (parameters->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      const CUDA_MEMCPY3D& copy = parameters->memcpy.copyParams;
      found = {copy.srcDevice, copy.dstDevice};
    } else if (parameters->type == CU_GRAPH_NODE_TYPE_MEMSET) {
      found = {parameters->memset.dst};
    } else if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
      found = operands_of(parameters->graph.graph);
    }
    return found;
  };
  return update_graph<EntryPoint::cuGraphExecNodeSetParams>(operands, graph, node, parameters);
}

CUresult hook_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* failed,
                                CUgraphExecUpdateResult* why) {
  const auto operands = [&] {
    return why != nullptr && is_about_memory(*why) ? operands_of(graph)
                                                   : std::vector<CUdeviceptr>();
  };
  return update_graph<EntryPoint::cuGraphExecUpdate>(operands, exec, graph, failed, why);
}

CUresult hook_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                   CUgraphExecUpdateResultInfo* info) {
  const auto operands = [&] {
    return info != nullptr && is_about_memory(info->result) ? operands_of(graph)
                                                            : std::vector<CUdeviceptr>();
  };
  return update_graph<EntryPoint::cuGraphExecUpdate_v2>(operands, exec, graph, info);
}

}  // namespace vma::interpose
