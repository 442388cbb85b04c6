#pragma once

#include "entry_points/entry_points.hpp"
#include "interpose/process.hpp"

#include <array>
#include <cstddef>
#include <string_view>

namespace vma::interpose {

/// An entry point of the program, and what it calls instead.
struct HookRow {
  const char* symbol;
  const void* hook;
};
/// In the order of `EntryPoint`. Defined where all hooks are known (hooks/resolving_hooks.cpp).
extern const std::array<HookRow, entry_count> hook_rows;

/// The driver's own library: all its functions that the hooks call. Found once, without a lock of
/// ours, because programs look functions up while the system's loader holds its lock. Never
/// destroyed: threads may be in the driver until the process ends. Any thread.
class DriverLibrary {
 public:
  /// If nothing is known yet, opens the library that the program is linked with. Null if there is
  /// no driver.
  static const DriverLibrary* get() noexcept;
  /// Takes the library that contains `function` for the driver's, unless that is known already.
  /// `function` is an entry point that the program has looked up.
  static void open_around(void* function) noexcept;

  /// The function behind a hook. Null if the driver is too old for it.
  template <EntryPoint entry>
  typename TypeOf<entry>::Pointer real() const noexcept {
    return reinterpret_cast<typename TypeOf<entry>::Pointer>(
        real_[static_cast<std::size_t>(entry)]);
  }
  /// The hook of the symbol; null if it has none.
  static const void* hook_named(std::string_view symbol) noexcept;
  /// The hook to use instead of a function of the driver; null if it has none.
  const void* hook_of(const void* function) const noexcept;

#define ROW(symbol, type) type symbol##_plain = nullptr;
  VMART_RUN_PLAIN_CALLS(ROW)
  VMART_RUN_OPTIONAL_PLAIN_CALLS(ROW)
#undef ROW

 private:
  DriverLibrary() = default;
  static void open(void* library) noexcept;
  /// Returns the name of a function that the driver lacks; null if it has all.
  const char* fill(void* library) noexcept;

  static constexpr auto entries = entry_count;
  struct Hook {
    const void* function = nullptr;  // The driver's; null if it lacks that.
    const void* hook = nullptr;
  };
  std::array<void*, entries> real_{};
  std::array<Hook, entries> hooks_{};  // In the order of the functions.
};

/// Called with each error that a call of the program gets: see `Refusals`.
void note_error(CUresult error) noexcept;

/// Calls the driver's function behind a hook.
template <EntryPoint entry, typename... Args>
CUresult call_driver(Args... args) noexcept {
  const ProgramExit::Call call;
  const DriverLibrary* const driver = DriverLibrary::get();
  const auto function = driver != nullptr ? driver->real<entry>() : nullptr;
  const CUresult result = function != nullptr ? function(args...) : CUDA_ERROR_NOT_FOUND;
  if (result != CUDA_SUCCESS) note_error(result);
  return result;
}

/// The context is current for the calling thread while this exists, unless the driver refuses.
class PushedContext {
 public:
  explicit PushedContext(const DriverLibrary& driver, CUcontext context) noexcept
      : driver_(driver),
        pushed_(driver.real<EntryPoint::cuCtxPushCurrent_v2>()(context) == CUDA_SUCCESS) {}
  ~PushedContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent_v2_plain(&popped);
  }
  PushedContext(const PushedContext&) = delete;
  PushedContext& operator=(const PushedContext&) = delete;
  explicit operator bool() const noexcept { return pushed_; }

 private:
  const DriverLibrary& driver_;
  const bool pushed_;
};

/// While this exists, the thread may make calls that a capture in progress elsewhere forbids.
class RelaxedCaptures {
 public:
  explicit RelaxedCaptures(const DriverLibrary& driver) noexcept : driver_(driver) { exchange(); }
  ~RelaxedCaptures() { exchange(); }
  RelaxedCaptures(const RelaxedCaptures&) = delete;
  RelaxedCaptures& operator=(const RelaxedCaptures&) = delete;

 private:
  void exchange() noexcept { driver_.cuThreadExchangeStreamCaptureMode_plain(&mode_); }
  const DriverLibrary& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Null if it is not active. The caller does not retain it: vmart does, where it has memory.
CUcontext primary_context(const DriverLibrary& driver, int device) noexcept;
}  // namespace vma::interpose
