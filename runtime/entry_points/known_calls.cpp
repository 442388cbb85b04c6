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

constexpr std::string_view hooked_symbols[] = {
#define ROW(symbol, type) #symbol,
    VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW
};
/// The bases of those whose other versions use memory as well. Calls that take room do not.
constexpr std::string_view hooked_bases[] = {
#define ROW(symbol, type) base_of(#symbol),
    VMART_RUN_HOOKS(ROW) VMART_RUN_ENQUEUES(ROW) VMART_RUN_LOOKUPS(ROW)
#undef ROW
};

}  // namespace

CallKind kind_of_call(std::string_view symbol) noexcept {
  if (std::ranges::count(hooked_symbols, symbol) > 0) return CallKind::hooked;
  const std::string_view base = base_of(symbol);
  const auto begins = [base](std::string_view begin) { return base.starts_with(begin); };
  if (std::ranges::any_of(harmless_begin, begins) || std::ranges::count(harmless_calls, base) > 0) {
    return CallKind::harmless;
  }
  const bool uses =
      std::ranges::any_of(using_begin, begins) || std::ranges::count(hooked_bases, base) > 0;
  return uses ? CallKind::unknown : CallKind::harmless;
}

bool may_look_memory_up(std::string_view symbol) noexcept {
  const std::string_view base = base_of(symbol);
  bool known = false;
  for (int i = 0; i < static_cast<int>(EntryPoint::count); ++i) {
    const auto entry = static_cast<EntryPoint>(i);
    if (base_of(symbol_of(entry)) != base) continue;
    if (looks_memory_up(entry)) return true;
    known = true;
  }
  return !known && kind_of_call(symbol) == CallKind::unknown;
}

std::string_view base_name(std::string_view symbol) noexcept {
  return base_of(symbol);
}

}  // namespace vma
