#include "interpose/graphs/graph_places.hpp"

#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vma::interpose {
namespace {

void* pointer_to(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

CUdeviceptr address_of(const vmart_use& use) {
  return reinterpret_cast<CUdeviceptr>(use.address);
}

bool is_same(const vmart_place& a, const vmart_place& b) {
  return a.kind == b.kind && a.ordinal == b.ordinal;
}

bool lies_at(CUdeviceptr address, const vmart_place& place) {
  vmart_place now{};
  return VmartLibrary::loaded()->vmart_where(pointer_to(address), &now) == VMART_OK &&
         is_same(now, place);
}

}  // namespace

// --- GraphPlaces

/// Leaves kernels unread, whose layouts vmart would keep although nobody may tell it of unloads.
GraphNodeReader GraphPlaces::reader() const noexcept {
  return GraphNodeReader(*DriverLibrary::get(), uses_, GraphNodeReader::Reads::copies_and_fills);
}

std::vector<GraphNode> GraphPlaces::copies_and_fills_of(CUgraph graph) const {
  return reader().nodes_of(graph);
}

/// None if it is where the program believes it, or not memory that can move.
std::optional<vmart_place> GraphPlaces::away(CUdeviceptr address) const {
  const auto memory = memory_.find(address);
  vmart_place now{};
  if (!memory || VmartLibrary::loaded()->vmart_where(pointer_to(address), &now) != VMART_OK ||
      is_same(now, {VMART_GPU, memory->device})) {
    return std::nullopt;
  }
  return now;
}

void GraphPlaces::instantiated(CUgraphExec exec, const std::vector<GraphNode>& nodes) {
  forget(exec);  // It may have ended with its context.
  bool any = false;
  std::vector<Known> known;
  for (const GraphNode& node : nodes) {
    Known& added = known.emplace_back(Known{node.handle, node.nested, {}, {}});
    for (const vmart_use& use : node.uses.uses) {
      auto& at = use.kind == VMART_USE_WRITE ? added.written_at : added.read_at;
      if (!at) at = away(address_of(use));
      any = any || at.has_value();
    }
  }
  if (!any) return;
  const std::lock_guard lock(mutex_);
  execs_[exec] = std::move(known);
}

void GraphPlaces::forget(CUgraphExec exec) noexcept {
  if (VmartLibrary::loaded() == nullptr) return;
  {
    const std::shared_lock lock(mutex_);
    if (!execs_.contains(exec)) return;
  }
  const std::lock_guard lock(mutex_);
  execs_.erase(exec);
}

void GraphPlaces::place(const Known& known, const std::vector<vmart_use>& operands,
                        std::vector<PlacedOperand>& out) const {
  for (const vmart_use& use : operands) {
    const auto memory = memory_.find(address_of(use));
    if (!memory) continue;
    const auto& at = use.kind == VMART_USE_WRITE ? known.written_at : known.read_at;
    out.push_back(
        {address_of(use), memory->begin, at.value_or(vmart_place{VMART_GPU, memory->device})});
  }
}

std::vector<PlacedOperand> GraphPlaces::places_of(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMCPY3D* copy) {
  if (copy == nullptr) return {};
  return places_of_operands(exec, node, reader().uses_of(*copy).uses);
}

std::vector<PlacedOperand> GraphPlaces::places_of(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS* fill) {
  if (fill == nullptr) return {};
  return places_of_operands(exec, node, reader().uses_of(*fill).uses);
}

std::vector<PlacedOperand> GraphPlaces::places_of(CUgraphExec exec, CUgraphNode node,
                                                  const CUgraphNodeParams* what) {
  switch (what != nullptr ? what->type : CU_GRAPH_NODE_TYPE_EMPTY) {
    case CU_GRAPH_NODE_TYPE_MEMCPY: return places_of(exec, node, &what->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return places_of_operands(exec, node, reader().uses_of(what->memset).uses);
    case CU_GRAPH_NODE_TYPE_GRAPH: return places_of(exec, node, what->graph.graph);
    default: return {};
  }
}

std::vector<PlacedOperand> GraphPlaces::places_of_operands(CUgraphExec exec, CUgraphNode node,
                                                           const std::vector<vmart_use>& operands) {
  std::vector<PlacedOperand> placed;
  Known found;
  const std::shared_lock lock(mutex_);
  if (const auto known = execs_.find(exec); known != execs_.end()) {
    for (const Known& each : known->second) {
      if (each.node == node) found = each;
    }
  }
  place(found, operands, placed);
  return placed;
}

std::vector<PlacedOperand> GraphPlaces::places_of(CUgraphExec exec, CUgraphNode node,
                                                  CUgraph graph) {
  const std::vector<GraphNode> nodes = copies_and_fills_of(graph);
  std::vector<PlacedOperand> placed;
  const std::shared_lock lock(mutex_);
  const auto known = execs_.find(exec);
  std::size_t first = 0;
  std::size_t count = 0;
  if (known != execs_.end()) {
    count = known->second.size();
    for (std::size_t i = 0; i < known->second.size() && node != nullptr; ++i) {
      if (known->second[i].node != node) continue;
      first = i + 1;
      count = known->second[i].nested;
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool alike = count == nodes.size();
    place(alike ? known->second[first + i] : Known(), nodes[i].uses.uses, placed);
  }
  return placed;
}

// --- HeldOperands

HeldOperands::HeldOperands(ProgramMemory& memory, const Limits& limits,
                           const std::vector<PlacedOperand>& operands)
    : memory_(memory), limits_(limits) {
  if (operands.empty() || VmartLibrary::loaded() == nullptr) return;
  static constinit std::mutex mutex;  // Has nothing to destroy: threads use it until the end.
  alone_ = std::unique_lock(mutex);
  pins_.reserve(operands.size());
  for (const PlacedOperand& operand : operands) hold(operand);
}

HeldOperands::~HeldOperands() {
  for (vmart_pin* const pin : pins_) VmartLibrary::loaded()->vmart_pin_release(pin);
}

vmart_status HeldOperands::move(void* begin, const vmart_place& place) noexcept {
  const auto may_move = memory_.without_pinned();
  return VmartLibrary::loaded()->vmart_migrate(begin, 0, 0, place, nullptr);
}

/// Others may move it away again before it is pinned.
void HeldOperands::hold(const PlacedOperand& operand) noexcept {
  constexpr int tries_max = 16;
  const RunTable& vmart = *VmartLibrary::loaded();
  void* const begin = pointer_to(operand.begin);
  bool made_room = false;
  for (int i = 0; i < tries_max; ++i) {
    vmart_pin* pin = nullptr;
    if (vmart.vmart_pin_create(begin, &pin) != VMART_OK) return;
    if (lies_at(operand.address, operand.place)) return pins_.push_back(pin);
    vmart.vmart_pin_release(pin);
    const vmart_status status = move(begin, operand.place);
    if (status == VMART_OK) continue;
    const bool full = status == VMART_OUT_OF_MEMORY && operand.place.kind == VMART_GPU;
    if (!full || made_room || !limits_.spills(operand.place.ordinal)) return;
    // Frees of other threads must not wait meanwhile: moves may wait for these threads' captures.
    std::size_t bytes = 0;
    std::uint64_t given = 0;
    vmart.vmart_base(begin, nullptr, &bytes);
    if (vmart.vmart_make_room(operand.place, bytes, &given) != VMART_OK) return;
    made_room = true;
  }
}

}  // namespace vma::interpose
