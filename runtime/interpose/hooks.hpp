#pragma once

#include "interpose/driver_library.hpp"
#include "interpose/entry_points.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_streams.hpp"
#include "interpose/uses.hpp"

#include <type_traits>

namespace vma::interpose {

/// Functions named `hook_` and the symbol, with its type.
#define ROW(symbol, type) std::remove_pointer_t<type> hook_##symbol;
VMART_RUN_HOOKS(ROW)
#undef ROW

/// Calls the driver. What vmart keeps for later allocations counts as free, so it must not be why a
/// call fails.
template <EntryPoint entry, typename... Args>
CUresult call_driver_with_room(Args... args) noexcept {
  const CUresult result = call_driver<entry>(args...);
  if (result != CUDA_ERROR_OUT_OF_MEMORY || !ProgramMemory::get().trim()) return result;
  return call_driver<entry>(args...);
}

/// The stream among the arguments; without one, null.
inline CUstream stream_among() noexcept {
  return nullptr;
}
template <typename First, typename... Rest>
CUstream stream_among(First first, Rest... rest) noexcept {
  if constexpr (std::is_same_v<First, CUstream>) {
    static_assert(!(std::is_same_v<Rest, CUstream> || ...), "more than one stream");
    return first;
  } else {
    return stream_among(rest...);
  }
}

/// The hook of a call that enqueues: its stream is attached before, and stays so meanwhile.
template <EntryPoint entry, typename Pointer = typename TypeOf<entry>::Pointer>
struct EnqueueHook;

template <EntryPoint entry, typename... Args>
struct EnqueueHook<entry, CUresult (*)(Args...)> {
  static CUresult call(Args... args) noexcept {
    const ProgramStreams::Enqueue enqueue(stream_among(args...));
    const CUresult result = call_driver_with_room<entry>(args...);
    if (result == CUDA_SUCCESS) note_memory_among(args...);
    return result;
  }
};

}  // namespace vma::interpose
