#pragma once

#include "entry_points/entry_points.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/hooks/program.hpp"
#include "interpose/vmart_library.hpp"
#include "interpose/work/memory_ranges.hpp"

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace vma::interpose {

/// The hook of each entry point: a function of the same type, named `hook_` and the symbol.
#define ROW(symbol, type, does) std::remove_pointer_t<type> hook_##symbol;
VMART_RUN_HOOKS(ROW)
#undef ROW

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

/// The mode among the arguments of a call that begins a capture; the first version has none.
template <typename... Args>
CUstreamCaptureMode capture_mode_among(Args... args) noexcept {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const auto look = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), CUstreamCaptureMode>) mode = argument;
  };
  (look(args), ...);
  return mode;
}

/// The name for vmart of a stream that a `_ptsz` entry point names, where null is the thread's.
inline CUstream of_thread(CUstream stream) noexcept {
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

/// What the call copies in the legacy stream; nothing if it is another call or another stream.
template <EntryPoint entry, typename... Args>
CopyOperands copied_in_legacy_stream(Args... args) noexcept {
  constexpr std::string_view symbol = symbol_of(entry);
  constexpr bool per_thread = symbol.ends_with("_ptsz") || symbol.ends_with("_ptds");
  CopyOperands operands;
  if constexpr (does(entry, Does::copies)) {
    const CUstream stream = stream_among(args...);
    if (stream == CU_STREAM_LEGACY || (stream == nullptr && !per_thread)) {
      const auto add = [&](const MemoryRange& range) {
        if (range.begin != 0) operands.add(range.begin);
      };
      ranges_among(add, args...);
    }
  }
  return operands;
}

/// Exists around a call by which a stream begins to capture or may join a capture. No stop is
/// enqueued meanwhile, because a stop could end the capture.
class CaptureGuard {
 public:
  CaptureGuard(bool begins, bool may_join) noexcept
      : vmart_((begins && Refusals::note_capture_begins()) || (may_join && Refusals::has_captured())
                   ? VmartLibrary::loaded()
                   : nullptr) {
    if (vmart_ != nullptr) vmart_->vmart_no_stops_begin();
  }
  ~CaptureGuard() {
    if (vmart_ != nullptr) vmart_->vmart_no_stops_end();
  }
  CaptureGuard(const CaptureGuard&) = delete;
  CaptureGuard& operator=(const CaptureGuard&) = delete;

 private:
  const RunTable* const vmart_;
};

/// Makes room for the call if the driver has none: see `with_room`. Moves wait for scopes within
/// the call, so they end before room is made.
template <typename Call>
CUresult with_room(const RoomNeed& need, Call call) {
  return with_room(program().limits, program().pools, need, call);
}

template <EntryPoint entry, typename... Args>
CUresult call_driver_with_room(const RoomNeed& need, Args... args) noexcept {
  static_assert(does(entry, Does::takes_room));
  return with_room(need, [&] {
    const CopyScope scope(does(entry, Does::looks_up));
    return call_driver<entry>(args...);
  });
}

/// As `call_driver_with_room`, for a call that enqueues on the stream. What waits for moves lies
/// around the scope of `Enqueue`, because holds wait for that.
template <EntryPoint entry, typename... Args>
CUresult enqueue_with_room(CUstream stream, const RoomNeed& need, Args... args) noexcept {
  return with_room(need, [&] {
    static_assert(does(entry, Does::enqueues));
    constexpr bool begins_capture = does(entry, Does::begins_capture);
    const CopyScope scope(does(entry, Does::looks_up));
    const ProgramStreams::Enqueue enqueue(program().streams);
    const CaptureGuard guard(begins_capture, does(entry, Does::joins_capture));
    const CUresult result = call_driver<entry>(args...);
    if constexpr (begins_capture) {
      // Before a hold can look for captures.
      const CUstream begun = symbol_of(entry).ends_with("_ptsz") ? of_thread(stream) : stream;
      if (result == CUDA_SUCCESS) {
        program().refusals.capture_begun(begun, capture_mode_among(args...));
      }
    }
    return result;
  });
}

/// The hook of a call without one of its own.
template <EntryPoint entry, typename Pointer = typename TypeOf<entry>::Pointer>
struct GenericHook;

template <EntryPoint entry, typename... Args>
struct GenericHook<entry, CUresult (*)(Args...)> {
  static CUresult call(Args... args) noexcept {
    const CUstream stream = stream_among(args...);
    if constexpr (does(entry, Does::enqueues)) {
      const CrossCopies::Order order(program().copies, copied_in_legacy_stream<entry>(args...));
      const CUresult result =
          enqueue_with_room<entry>(stream, RoomNeed::on_stream(stream), args...);
      if (result == CUDA_SUCCESS) program().uses.note(args...);
      return result;
    } else if constexpr (does(entry, Does::takes_room)) {
      // Only the driver knows how much.
      return call_driver_with_room<entry>(RoomNeed::on_stream(stream), args...);
    } else {
      const CopyScope scope(does(entry, Does::looks_up));
      return call_driver<entry>(args...);
    }
  }
};

}  // namespace vma::interpose
