// The kinds of all calls of the driver. What it says of each symbol of CUDA 12.5 to 13.5 is checked
// against tests/run/driver_calls.txt, where somebody has read what the call does.
#include "entry_points/known_calls.hpp"

#include "entry_points/entry_points.hpp"

#include <algorithm>
#include <cstddef>

namespace vma {
namespace {

/// The families of calls that enqueue work, or look memory up.
constexpr std::string_view using_begin[] = {
    "cuFabric", "cuGraphAdd",      "cuGraphExec", "cuLaunch", "cuLogicalEndpointBind",
    "cuMem",    "cuMulticastBind", "cuStream"};
/// Those of them that do neither. No version of such a call does.
constexpr std::string_view harmless_begin[] = {"cuGraphAddDependencies",
                                               "cuGraphAddEvent",
                                               "cuGraphAddExternalSemaphores",
                                               "cuGraphExecEvent",
                                               "cuGraphExecExternal",
                                               "cuGraphExecGet",
                                               "cuMemGet",
                                               "cuMemHost",
                                               "cuMemPool",
                                               "cuMemRange",
                                               "cuStreamGet",
                                               "cuStreamIs"};
// clang-format would put each into a line of its own.
// clang-format off
constexpr std::string_view harmless_calls[] = {
    "cuGraphAddChildGraphNode", "cuGraphAddEmptyNode", "cuGraphAddHostNode",
    "cuGraphAddKernelNode", "cuGraphAddMemAllocNode", "cuGraphAddMemFreeNode",
    "cuGraphExecHostNodeSetParams", "cuMemAddressReserve", "cuMemAdvise",
    "cuMemAllocHost", "cuMemAllocManaged", "cuMemDiscardAndPrefetchBatchAsync",
    "cuMemDiscardBatchAsync", "cuMemFreeHost", "cuMemImportFromShareableHandle",
    "cuMemMapArrayAsync", "cuMemPrefetchAsync", "cuMemPrefetchBatchAsync", "cuMemSetMemPool",
    "cuStreamAttachMemAsync", "cuStreamCopyAttributes", "cuStreamSetAttribute",
    "cuStreamUpdateCaptureDependencies"};
// clang-format on

/// Without its version, and whether its streams are those of threads.
constexpr std::string_view base_of(std::string_view symbol) noexcept {
  if (symbol.ends_with("_ptsz") || symbol.ends_with("_ptds")) symbol.remove_suffix(5);
  const std::size_t version = symbol.rfind("_v");
  if (version == std::string_view::npos) return symbol;
  const std::string_view digits = symbol.substr(version + 2);
  const bool is_version =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return is_version ? symbol.substr(0, version) : symbol;
}

/// Whether another version of a hooked call has that base. Other versions use memory as well, but
/// for those of calls that only take room.
bool is_hooked_base(std::string_view base) noexcept {
  return std::ranges::any_of(entry_rows, [base](const EntryRow& row) {
    return row.does != Does::takes_room && base_of(row.symbol) == base;
  });
}

/// A trait that a family of calls has, whatever else its calls do.
struct Family {
  std::string_view begin;
  Does trait;
};
constexpr Family families[] = {{"cuMemcpy", Does::enqueues},
                               {"cuMemcpy", Does::looks_up},
                               {"cuMemset", Does::enqueues},
                               {"cuMemset", Does::looks_up},
                               {"cuLaunch", Does::enqueues},
                               {"cuStreamWaitValue", Does::looks_up},
                               {"cuStreamWriteValue", Does::looks_up},
                               {"cuStreamBatchMemOp", Does::looks_up},
                               {"cuGraphInstantiate", Does::looks_up},
                               {"cuGraphExecUpdate", Does::looks_up},
                               {"cuGraphAdd", Does::looks_up},
                               {"cuGraphLaunch", Does::enqueues},
                               {"cuStreamBegin", Does::begins_capture},
                               {"cuStreamEndCapture", Does::ends_capture},
                               {"cuStreamDestroy", Does::destroys_stream},
                               {"cuCtxCreate", Does::creates_context}};

constexpr bool rows_have_the_traits_of_their_families() noexcept {
  for (std::size_t row = 0; row < entry_count; ++row) {
    for (const auto& [begin, trait] : families) {
      const bool is_of_family = entry_rows[row].symbol.starts_with(begin);
      if (is_of_family && !does(static_cast<EntryPoint>(row), trait)) return false;
    }
  }
  return true;
}
static_assert(rows_have_the_traits_of_their_families(), "a row of entry_points.hpp lacks a trait");

}  // namespace

CallKind kind_of_call(std::string_view symbol) noexcept {
  if (std::ranges::count(entry_rows, symbol, &EntryRow::symbol) > 0) return CallKind::hooked;
  const std::string_view base = base_of(symbol);
  const auto begins = [base](std::string_view begin) { return base.starts_with(begin); };
  if (std::ranges::any_of(harmless_begin, begins) || std::ranges::count(harmless_calls, base) > 0) {
    return CallKind::harmless;
  }
  const bool uses = std::ranges::any_of(using_begin, begins) || is_hooked_base(base);
  return uses ? CallKind::unknown : CallKind::harmless;
}

bool may_look_memory_up(std::string_view symbol) noexcept {
  const std::string_view base = base_of(symbol);
  bool known = false;
  for (std::size_t row = 0; row < entry_count; ++row) {
    if (base_of(entry_rows[row].symbol) != base) continue;
    if (does(static_cast<EntryPoint>(row), Does::looks_up)) return true;
    known = true;
  }
  return !known && kind_of_call(symbol) == CallKind::unknown;
}

std::string_view base_name(std::string_view symbol) noexcept {
  return base_of(symbol);
}

}  // namespace vma
