#include "interpose/driver_library.hpp"

#include "interpose/hooks.hpp"
#include "interpose/standing.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>

namespace vma::interpose {
namespace {

struct Row {
  const char* symbol;
  const void* hook;
};

/// In the order of `EntryPoint`.
const std::array<Row, static_cast<std::size_t>(EntryPoint::count)> rows = {{
#define ROW(symbol, type) Row{#symbol, reinterpret_cast<const void*>(&hook_##symbol)},
    VMART_RUN_HOOKS(ROW)
#undef ROW
#define ROW(symbol, type) \
  Row{#symbol, reinterpret_cast<const void*>(&EnqueueHook<EntryPoint::symbol>::call)},
        VMART_RUN_ENQUEUES(ROW)
#undef ROW
#define ROW(symbol, type) \
  Row{#symbol, reinterpret_cast<const void*>(&LookupHook<EntryPoint::symbol>::call)},
            VMART_RUN_LOOKUPS(ROW)
#undef ROW
#define ROW(symbol, type) \
  Row{#symbol, reinterpret_cast<const void*>(&RoomHook<EntryPoint::symbol>::call)},
                VMART_RUN_ROOM_CALLS(ROW)
#undef ROW
}};

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
  open(behind_shim != nullptr ? behind_shim : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  return known.load(std::memory_order_acquire);
}

void DriverLibrary::open_around(void* function) noexcept {
  if (known.load(std::memory_order_acquire) != nullptr) return;
  Dl_info found{};
  Dl_info own{};
  if (dladdr(function, &found) == 0 || found.dli_fname == nullptr) return;
  // A look-up in all libraries finds the symbols that this one exports.
  if (dladdr(&rows, &own) != 0 && own.dli_fbase == found.dli_fbase) return;
  open(dlopen(found.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
}

const void* DriverLibrary::hook_of(const void* function) const noexcept {
  const auto found = hooks_.find(function);
  return found == hooks_.end() ? nullptr : found->second;
}

CUcontext primary_context(const DriverLibrary& driver, int device) noexcept {
  unsigned flags = 0;
  int active = 0;
  CUcontext context = nullptr;
  if (driver.cuDevicePrimaryCtxGetState_plain(device, &flags, &active) != CUDA_SUCCESS ||
      active == 0 || driver.cuDevicePrimaryCtxRetain_plain(&context, device) != CUDA_SUCCESS) {
    return nullptr;
  }
  driver.cuDevicePrimaryCtxRelease_v2_plain(device);
  return context;
}

void DriverLibrary::open(void* library) noexcept try {
  if (library == nullptr) return;
  std::unique_ptr<DriverLibrary> made(new DriverLibrary());
  const char* const lacks = made->fill(library);
  dlerror();  // Of functions that this driver lacks; the program would take it for its own.
  if (lacks != nullptr) {
    char why[128];
    std::snprintf(why, sizeof why, "the driver lacks %s; driver 550 or newer is needed", lacks);
    stand_aside(why);
  }
  const DriverLibrary* none = nullptr;
  if (known.compare_exchange_strong(none, made.get())) made.release();
} catch (const std::exception&) {
  stand_aside("there is no memory for the table of entry points");
}

const char* DriverLibrary::fill(void* library) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    real_[i] = next_dlsym(library, rows[i].symbol);
    if (real_[i] != nullptr) hooks_.emplace(real_[i], rows[i].hook);
  }
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
