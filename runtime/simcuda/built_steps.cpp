// What the graphs do that the program builds.
#include "simcuda/graphs.hpp"
#include "simcuda/library.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

/// The simulator takes an address that it does not know for one of the host's own memory.
Place place_of(std::uint64_t address) {
  try {
    return sim().pointer_info(Address{address}).at;
  } catch (const Error&) {
    return host(0);
  }
}

Place place_of(CUmemorytype type, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? host(0) : place_of(device);
}

std::vector<Place> places_of(const Transfer& what) {
  if (const auto* const copy = std::get_if<CUDA_MEMCPY3D>(&what)) {
    return {place_of(copy->srcMemoryType, copy->srcDevice),
            place_of(copy->dstMemoryType, copy->dstDevice)};
  }
  return {place_of(std::get<CUDA_MEMSET_NODE_PARAMS_v1>(what).dst)};
}

bool is_row(const Transfer& what) {
  if (const auto* const copy = std::get_if<CUDA_MEMCPY3D>(&what)) {
    return copy->Height == 1 && copy->Depth == 1;
  }
  return std::get<CUDA_MEMSET_NODE_PARAMS_v1>(what).height == 1;
}

/// Whether an update may replace one by the other. The driver takes only single rows.
bool alike(const BuiltStep& before, const std::vector<Place>& places, const BuiltStep& after) {
  const auto* const old = std::get_if<Transfer>(&before);
  const auto* const made = std::get_if<Transfer>(&after);
  if (old == nullptr || made == nullptr) return old == made;
  return old->index() == made->index() && is_row(*old) && is_row(*made) &&
         places == places_of(*made);
}

}  // namespace

Transfer checked(const CUDA_MEMCPY3D* copy) {
  const CUDA_MEMCPY3D& what = *required(copy);
  for (const auto& [type, device] : {std::pair(what.srcMemoryType, what.srcDevice),
                                     std::pair(what.dstMemoryType, what.dstDevice)}) {
    if (type == CU_MEMORYTYPE_ARRAY) refuse(CUDA_ERROR_NOT_SUPPORTED);
    if (type == CU_MEMORYTYPE_DEVICE) sim().pointer_info(Address{device});
  }
  if (what.WidthInBytes == 0 || what.Height == 0 || what.Depth == 0) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  return what;
}

Transfer checked(const CUDA_MEMSET_NODE_PARAMS_v1* fill) {
  const CUDA_MEMSET_NODE_PARAMS_v1& what = *required(fill);
  const unsigned int unit = what.elementSize;
  if ((unit != 1 && unit != 2 && unit != 4) || what.dst % unit != 0 || what.width == 0 ||
      what.height == 0) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  sim().pointer_info(Address{what.dst});
  return what;
}

BuiltSteps::BuiltSteps(const Graph& graph) {
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const BuiltStep& step = graph.steps[i];
    if (const auto* const transfer = std::get_if<Transfer>(&step)) {
      parts_.push_back({i, {step}, {}, places_of(*transfer)});
    } else if (!parts_.empty() && parts_.back().places.empty()) {
      parts_.back().steps.push_back(step);
    } else {
      parts_.push_back({i, {step}, {}, {}});
    }
  }
  for (Part& part : parts_) {
    if (part.places.empty()) part.chain = sim().make_chain(graph.context, chain_of(part));
  }
}

BuiltSteps::~BuiltSteps() {
  for (const Part& part : parts_) {
    if (is_none(part.chain)) continue;
    try {
      sim().destroy_exec_graph(part.chain);
    } catch (...) {  // It went with its context.
    }
  }
}

std::vector<ChainStep> BuiltSteps::chain_of(const Part& part) {
  std::vector<ChainStep> chain;
  for (const BuiltStep& step : part.steps) chain.push_back(std::get<ChainStep>(step));
  return chain;
}

void BuiltSteps::launch(CUstream stream) const {
  for (const Part& part : parts_) {
    if (is_none(part.chain)) {
      enqueue(std::get<Transfer>(part.steps.front()), stream);
    } else {
      sim().launch_graph(stream_of(stream), part.chain);
    }
  }
}

void BuiltSteps::update(std::size_t number, BuiltStep step) {
  const auto after = std::ranges::upper_bound(parts_, number, {}, &Part::first);
  Part& part = *std::prev(after);
  BuiltStep& known = part.steps.at(number - part.first);
  if (!alike(known, part.places, step)) refuse(CUDA_ERROR_INVALID_VALUE);
  std::swap(known, step);
  if (is_none(part.chain)) return;
  try {
    sim().update_chain(part.chain, chain_of(part));
  } catch (...) {
    std::swap(known, step);
    throw;
  }
}

CUgraphExecUpdateResult BuiltSteps::update_all(const Graph& graph) {
  std::size_t count = 0;
  for (const Part& part : parts_) count += part.steps.size();
  if (count == 0) return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  if (count != graph.steps.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (const Part& part : parts_) {
    for (std::size_t i = 0; i < part.steps.size(); ++i) {
      const BuiltStep& step = graph.steps[part.first + i];
      if (part.steps[i].index() != step.index()) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
      }
      if (!alike(part.steps[i], part.places, step)) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
      }
    }
  }
  for (const Part& part : parts_) {
    for (std::size_t i = 0; i < part.steps.size(); ++i) {
      update(part.first + i, graph.steps[part.first + i]);
    }
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace vma
