#include "interpose/driver_library.hpp"

#include "interpose/loader.hpp"
#include "interpose/settings.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <new>

namespace vma::interpose {
namespace {

/// Instead of a call that the driver lacks, so that hooks which make it need not ask.
template <typename Pointer>
struct Lacking;
template <typename... Args>
struct Lacking<CUresult (*)(Args...)> {
  static CUresult call(Args...) noexcept { return CUDA_ERROR_NOT_FOUND; }
};

std::atomic<const DriverLibrary*> known = nullptr;

}  // namespace

const DriverLibrary* DriverLibrary::get() noexcept {
  const DriverLibrary* const driver = known.load(std::memory_order_acquire);
  if (driver != nullptr) return driver;
  void* const behind_shim = dlopen("libvmart-driver.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (behind_shim == nullptr) forget_loader_error();
  open(behind_shim != nullptr ? behind_shim : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  return known.load(std::memory_order_acquire);
}

void DriverLibrary::open_around(void* function) noexcept {
  if (known.load(std::memory_order_acquire) != nullptr) return;
  Dl_info found{};
  Dl_info own{};
  if (dladdr(function, &found) == 0 || found.dli_fname == nullptr) return;
  // A look-up in all libraries finds the symbols that this one exports.
  if (dladdr(&hook_rows, &own) != 0 && own.dli_fbase == found.dli_fbase) return;
  open(dlopen(found.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
}

const void* DriverLibrary::hook_named(std::string_view symbol) noexcept {
  const auto found = std::ranges::find(hook_rows, symbol, &HookRow::symbol);
  return found != hook_rows.end() ? found->hook : nullptr;
}

const void* DriverLibrary::hook_of(const void* function) const noexcept {
  const auto found = std::ranges::lower_bound(hooks_, function, std::less<>(), &Hook::function);
  return found != hooks_.end() && found->function == function ? found->hook : nullptr;
}

CUcontext primary_context(const DriverLibrary& driver, int device) noexcept {
  unsigned flags = 0;
  int active = 0;
  CUcontext context = nullptr;
  if (driver.cuDevicePrimaryCtxGetState_plain(device, &flags, &active) != CUDA_SUCCESS ||
      active == 0 ||
      driver.real<EntryPoint::cuDevicePrimaryCtxRetain>()(&context, device) != CUDA_SUCCESS) {
    return nullptr;
  }
  driver.real<EntryPoint::cuDevicePrimaryCtxRelease_v2>()(device);
  return context;
}

void DriverLibrary::open(void* library) noexcept {
  if (library == nullptr) return forget_loader_error();
  // The first thread needs no memory: without a table, the program's own calls would fail.
  static std::atomic_flag taken;
  alignas(DriverLibrary) static unsigned char place[sizeof(DriverLibrary)];
  const bool first = !taken.test_and_set();
  DriverLibrary* const made =
      first ? new (place) DriverLibrary() : new (std::nothrow) DriverLibrary();
  if (made == nullptr) return;
  const char* const lacks = made->fill(library);
  forget_loader_error();  // Of functions that this driver lacks.
  if (lacks != nullptr) {
    char why[128];
    std::snprintf(why, sizeof why, "the driver lacks %s; driver 550 or newer is needed", lacks);
    disable(why);
  }
  const DriverLibrary* none = nullptr;
  if (!known.compare_exchange_strong(none, made) && !first) delete made;
}

const char* DriverLibrary::fill(void* library) noexcept {
  for (std::size_t i = 0; i < hook_rows.size(); ++i) {
    real_[i] = next_dlsym(library, hook_rows[i].symbol);
    hooks_[i] = {real_[i], real_[i] != nullptr ? hook_rows[i].hook : nullptr};
  }
  // Stable, since a driver may have two names for a function: the hook of the first row is found.
  std::ranges::stable_sort(hooks_, std::less<>(), &Hook::function);
  const char* lacks = nullptr;
#define ROW(symbol, type)                                                \
  symbol##_plain = reinterpret_cast<type>(next_dlsym(library, #symbol)); \
  if (symbol##_plain == nullptr) {                                       \
    symbol##_plain = &Lacking<type>::call;                               \
    lacks = #symbol;                                                     \
  }
  VMART_RUN_PLAIN_CALLS(ROW)
#undef ROW
#define ROW(symbol, type) symbol##_plain = reinterpret_cast<type>(next_dlsym(library, #symbol));
  VMART_RUN_OPTIONAL_PLAIN_CALLS(ROW)
#undef ROW
  return lacks;
}

}  // namespace vma::interpose
