// How a program comes to call the hooks. Programs that are linked with the driver find the symbols
// that this library exports, because it is loaded before the driver's. `dlsym` and the driver's
// `cuGetProcAddress` return the hooks instead of the driver's functions. Libraries that look past
// this one get other slots.
#include "base/loader/new_libraries.hpp"
#include "entry_points/known_calls.hpp"
#include "entry_points/loader_stubs.hpp"
#include "entry_points/unknown_calls.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/loader.hpp"
#include "interpose/process.hpp"
#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string_view>

// --- Exported symbols

// Each is a jump to its hook. A C++ function cannot be defined from a typedef, so the jumps are
// assembly. They begin with the landing pads that processors with control-flow checks require.
#if defined(__x86_64__)
#define VMART_RUN_JUMP(symbol) "  endbr64\n  jmp *vmart_run_hook_" #symbol "(%rip)\n"
#elif defined(__aarch64__)
#define VMART_RUN_JUMP(symbol)                      \
  "  hint #34\n  adrp x16, vmart_run_hook_" #symbol \
  "\n  ldr x16, [x16, #:lo12:vmart_run_hook_" #symbol "]\n  br x16\n"
#else
#error "vmart run has no jumps for this processor"
#endif

#define VMART_RUN_EXPORT(symbol, type, hook)                                                      \
  extern "C" __attribute__((visibility("hidden"), used)) const type vmart_run_hook_##symbol =     \
      hook;                                                                                       \
  asm(".pushsection .text\n.globl " #symbol "\n.type " #symbol ",@function\n.p2align 4\n" #symbol \
      ":\n" VMART_RUN_JUMP(symbol) ".size " #symbol ", .-" #symbol "\n.popsection\n");

namespace vma::interpose {

#define ROW(symbol, type, does) VMART_RUN_EXPORT(symbol, type, &hook_##symbol)
VMART_RUN_HOOKS(ROW)
#undef ROW
#define ROW(symbol, type, does) \
  VMART_RUN_EXPORT(symbol, type, &GenericHook<EntryPoint::symbol>::call)
VMART_RUN_GENERIC(ROW)
#undef ROW

const std::array<HookRow, entry_count> hook_rows = {{
#define ROW(symbol, type, does) HookRow{#symbol, reinterpret_cast<const void*>(&hook_##symbol)},
    VMART_RUN_HOOKS(ROW)
#undef ROW
#define ROW(symbol, type, does) \
  HookRow{#symbol, reinterpret_cast<const void*>(&GenericHook<EntryPoint::symbol>::call)},
        VMART_RUN_GENERIC(ROW)
#undef ROW
}};

}  // namespace vma::interpose

// --- Libraries that look past this one

extern "C" {
__attribute__((visibility("hidden"))) void* (*vmart_run_next_dlopen)(const char*, int) = nullptr;
// Other names of our `dlsym` and `dlopen`, which nobody can put another function before.
__attribute__((visibility("hidden"))) void* vmart_run_dlsym(void*, const char*);
__attribute__((visibility("hidden"))) void* vmart_run_dlopen(const char*, int);
}

namespace vma::interpose {
namespace {

std::atomic<bool> any_opened = false;

template <typename Function>
const void* erased(Function* function) noexcept {
  return reinterpret_cast<const void*>(function);
}

NewLibraries new_libraries;

/// Replaces what leads past this library: the system's functions and the driver's, and slots that
/// are not filled yet. Returns false if the library names a call of the driver that has a hook, and
/// `driver` is not known yet.
bool bind(const LoadedLibrary& library, const DriverLibrary* driver) noexcept {
  const std::string_view file = library.file();
  if (library.contains(erased(&vmart_run_dlsym)) || file.starts_with("libvmart.so") ||
      file.starts_with("libcuda.so")) {
    return true;
  }
  bool needs_driver = false;
  library.for_each_slot([&](const LoadedLibrary::Slot& slot) -> const void* {
    const auto [name, bound, filled] = slot;
    if (std::strcmp(name, "dlsym") == 0) {
      return !filled || bound == erased(vmart_run_next_dlsym) ? erased(&vmart_run_dlsym) : nullptr;
    }
    if (std::strcmp(name, "dlopen") == 0) {
      return !filled || bound == erased(vmart_run_next_dlopen) ? erased(&vmart_run_dlopen)
                                                               : nullptr;
    }
    if (name[0] != 'c' || name[1] != 'u') return nullptr;
    const void* const hook = DriverLibrary::hook_named(name);
    if (hook == nullptr) return nullptr;
    needs_driver = needs_driver || driver == nullptr;
    if (driver == nullptr) return nullptr;
    return filled ? driver->hook_of(bound) : hook;
  });
  return !needs_driver;
}

/// Libraries that the program opens with RTLD_DEEPBIND find the symbols of their own dependencies
/// before those of a preloaded library: the system's `dlsym`, and the driver's calls. Lets those
/// that were opened since the last call find ours. The next `dlsym` is early enough, since nobody
/// can call into such a library without one, but for its constructors. Any thread.
void bind_deep_libraries() noexcept {
  if (!any_opened.load(std::memory_order_acquire)) return;
  bool needs_driver = false;
  const auto bind_all = [&](const DriverLibrary* driver) {
    new_libraries.visit(vmart_run_next_dlopen, [&](const LoadedLibrary& library) noexcept {
      const bool done = bind(library, driver);
      needs_driver = needs_driver || !done;
      return done;
    });
  };
  bind_all(nullptr);
  if (!needs_driver) return;
  const DriverLibrary* const driver = DriverLibrary::get();  // May open it, which no walk may do.
  if (driver != nullptr) bind_all(driver);
}

}  // namespace
}  // namespace vma::interpose

extern "C" __attribute__((visibility("hidden"), used)) vma::LoaderAnswer vmart_run_opens(
    const char*, int flags, const void*) {
  using namespace vma::interpose;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (vmart_run_next_dlopen != nullptr) break;
    void* const found = dlvsym(RTLD_NEXT, "dlopen", version);
    vmart_run_next_dlopen = reinterpret_cast<decltype(vmart_run_next_dlopen)>(found);
    if (found == nullptr) forget_loader_error();
  }
  if ((flags & RTLD_DEEPBIND) != 0) any_opened.store(true);
  return {};
}

VMART_LOADER_STUB(vmart_run_dlopen, vmart_run_opens, vmart_run_next_dlopen);
VMART_EXPORTED_STUB(dlopen, vmart_run_dlopen);

// --- Functions that are looked up

/// vmart is disabled here, and all memory stays where it lies.
void vma::before_unknown_call(std::string_view symbol) noexcept {
  using namespace vma::interpose;
  // Each call, so that none goes on before the memory stays.
  if (!takes_part() && (VmartLibrary::loaded() == nullptr || program().memory.stays())) return;
  char why[160];
  std::snprintf(why, sizeof why,
                "the program calls %.*s, which this version of vmart does not follow",
                static_cast<int>(symbol.size()), symbol.data());
  program().memory.pin_all(why);
}

namespace vma::interpose {
namespace {

/// vmart itself calls the driver directly. A program may have loaded it before us.
bool is_vmart(const void* caller) noexcept {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const name = slash != nullptr ? slash + 1 : info.dli_fname;
  return std::strncmp(name, "libvmart.so", 11) == 0;
}

/// A harmless function as it is.
const void* jump_to_unknown(const void* function, std::string_view symbol) noexcept {
  return kind_of_call(symbol) == CallKind::harmless ? function : jump_to(function, symbol);
}

void replace(const char* symbol, void** out) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  if (out == nullptr || *out == nullptr || driver == nullptr || symbol == nullptr) return;
  const void* const hook = driver->hook_of(*out);
  *out = const_cast<void*>(hook != nullptr ? hook : jump_to_unknown(*out, symbol));
}

/// Other libraries have functions of such names, too, and this one has symbols of its own.
bool is_in_driver(const void* function) noexcept {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libcuda.so") != nullptr;
}

}  // namespace

CUresult hook_cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
  const CUresult result = call_driver<EntryPoint::cuGetProcAddress>(symbol, out, version, flags);
  if (result == CUDA_SUCCESS) replace(symbol, out);
  return result;
}

CUresult hook_cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  const CUresult result =
      call_driver<EntryPoint::cuGetProcAddress_v2>(symbol, out, version, flags, status);
  if (result == CUDA_SUCCESS) replace(symbol, out);
  return result;
}

}  // namespace vma::interpose

extern "C" {

/// What `dlsym` returns to the program.
__attribute__((visibility("hidden"), used)) vma::LoaderAnswer vmart_run_found(void* handle,
                                                                              const char* symbol,
                                                                              const void* caller) {
  using vma::interpose::DriverLibrary;
  vma::interpose::find_next_dlsym();  // First: whatever is returned, the jump needs it.
  vma::interpose::bind_deep_libraries();
  // RTLD_NEXT depends on who calls.
  if (symbol == nullptr || symbol[0] != 'c' || symbol[1] != 'u' || handle == RTLD_NEXT) {
    return {};
  }
  const vma::CallKind kind = vma::kind_of_call(symbol);
  if (kind == vma::CallKind::harmless) return {};
  // Also where vmart is disabled: it may have memory of vmart's.
  if (!vma::interpose::Settings::get().on || vma::interpose::is_vmart(caller)) return {};
  void* const function = vma::interpose::next_dlsym(handle, symbol);
  if (function == nullptr) return {};
  const bool in_driver = vma::interpose::is_in_driver(function);
  if (kind != vma::CallKind::hooked && !in_driver) return {};
  DriverLibrary::open_around(function);
  const DriverLibrary* const driver = DriverLibrary::get();
  const void* const hook = driver != nullptr ? driver->hook_of(function) : nullptr;
  const void* const answer =
      hook == nullptr && in_driver ? vma::interpose::jump_to_unknown(function, symbol) : hook;
  return {answer, answer != nullptr};
}

}  // extern "C"

VMART_LOADER_STUB(vmart_run_dlsym, vmart_run_found, vmart_run_next_dlsym);
VMART_EXPORTED_STUB(dlsym, vmart_run_dlsym);
