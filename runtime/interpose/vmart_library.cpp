#include "interpose/vmart_library.hpp"

#include "interpose/loader.hpp"
#include "interpose/process.hpp"
#include "interpose/settings.hpp"

#include <dlfcn.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace vma::interpose {
namespace {

std::atomic<const RunTable*> library = nullptr;

/// Beside this library, which may have been found by a link, or above the folder of the shim.
void* open_beside() noexcept {
  Dl_info own{};
  if (dladdr(&library, &own) != 0 && own.dli_fname != nullptr) {
    const std::unique_ptr<char, void (*)(void*)> path(realpath(own.dli_fname, nullptr), std::free);
    const char* const slash = path != nullptr ? std::strrchr(path.get(), '/') : nullptr;
    char beside[PATH_MAX];
    for (const char* const above : {"", "../"}) {
      if (slash == nullptr) break;
      std::snprintf(beside, sizeof beside, "%.*s/%s%s", static_cast<int>(slash - path.get()),
                    path.get(), above, VMART_RUN_LIBRARY_NAME);
      if (void* const handle = dlopen(beside, RTLD_NOW | RTLD_LOCAL)) return handle;
    }
  }
  return dlopen(VMART_RUN_LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
}

/// Null, and vmart takes no part.
const RunTable* refuse_versions(const char* format, const char* one, const char* other) noexcept {
  char why[PATH_MAX + 256];
  std::snprintf(why, sizeof why, format, one, other);
  disable(why);
  return nullptr;
}

const RunTable* table_of(void* handle) noexcept {
  const auto get = reinterpret_cast<RunTableOf>(next_dlsym(handle, "vmart_run_table"));
  if (const RunTable* const table = get != nullptr ? get(RunTable::version) : nullptr) return table;
  const auto version_of =
      reinterpret_cast<decltype(&vmart_version)>(next_dlsym(handle, "vmart_version"));
  const char* const version = version_of != nullptr ? version_of() : "(unknown)";
  Dl_info found{};
  const bool known =
      version_of != nullptr && dladdr(reinterpret_cast<const void*>(version_of), &found) != 0;
  forget_loader_error();
  return refuse_versions(
      std::strcmp(version, VMART_VERSION) == 0
          ? "%s is of another build of vmart %s than libvmart-run; install both from one package"
          : "%s is of vmart %s, and libvmart-run of " VMART_VERSION
            "; install both from one package",
      known ? found.dli_fname : VMART_RUN_LIBRARY_NAME, version);
}

const RunTable* open() noexcept {
  const std::string& run_version = Settings::get().run_version;
  if (!run_version.empty() && run_version != VMART_VERSION) {
    return refuse_versions(
        "`vmart run` is of vmart %s, and libvmart-run of %s; use both from one package",
        run_version.c_str(), VMART_VERSION);
  }
  const std::string& driver = Settings::get().driver;
  if (!driver.empty() && driver != "cuda") {  // Its addresses mean nothing to the program's.
    char why[128];
    std::snprintf(why, sizeof why, "VMART_DRIVER is \"%.40s\"; only cuda is the program's driver",
                  driver.c_str());
    disable(why);
    return nullptr;
  }
  void* const handle = open_beside();
  if (handle == nullptr) {
    disable(dlerror());
    forget_loader_error();
    return nullptr;
  }
  return table_of(handle);
}

}  // namespace

const RunTable* VmartLibrary::load() noexcept {
  if (is_forked_child()) return nullptr;
  const RunTable* none = library.load(std::memory_order_acquire);
  if (none != nullptr) return none;
  // No lock: the system's loader holds its own while constructors run, and they may call a hook.
  const RunTable* const made = open();
  if (made == nullptr) return made;
  if (library.compare_exchange_strong(none, made)) {
    report_crashes(reinterpret_cast<const void*>(made->vmart_last_error));
  }
  return made;
}

const RunTable* VmartLibrary::loaded() noexcept {
  return is_forked_child() ? nullptr : library.load(std::memory_order_acquire);
}

}  // namespace vma::interpose

/// A program that uses libvmart itself asks whether the hooks have scopes of that library around
/// copies; `inside` is an address in it.
extern "C" __attribute__((visibility("default"))) int vmart_run_guards_copies(const void* inside) {
  using namespace vma::interpose;
  const vma::RunTable* const vmart = VmartLibrary::load();
  Dl_info own{}, theirs{};
  if (vmart == nullptr || !Settings::get().on || dladdr(inside, &theirs) == 0) return 0;
  return dladdr(reinterpret_cast<const void*>(vmart->vmart_copy_begin), &own) != 0 &&
                 own.dli_fbase == theirs.dli_fbase
             ? 1
             : 0;
}
