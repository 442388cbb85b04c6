#include "interpose/hooks/deep_libraries.hpp"

#include "base/loader/new_libraries.hpp"
#include "entry_points/loader_stubs.hpp"
#include "interpose/driver_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <string_view>

extern "C" {
__attribute__((visibility("hidden"))) void* (*vmart_run_next_dlopen)(const char*, int) = nullptr;
extern __attribute__((visibility("hidden"))) void* (*vmart_run_next_dlsym)(void*, const char*);
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

}  // namespace

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
