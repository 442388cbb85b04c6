#include "interpose/vmart_library.hpp"

#include "interpose/crash_report.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/standing.hpp"

#include <dlfcn.h>

#include <atomic>
#include <new>

namespace vma::interpose {
namespace {

std::atomic<const VmartLibrary*> library = nullptr;

const VmartLibrary* open() noexcept {
  // Beside this library, by its run path.
  void* const handle = dlopen(VMART_RUN_LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    stand_aside(dlerror());
    return nullptr;
  }
  auto* const made = new (std::nothrow) VmartLibrary();
  bool complete = made != nullptr;
#define ROW(call)                                                                   \
  if (complete) {                                                                   \
    made->call = reinterpret_cast<decltype(made->call)>(next_dlsym(handle, #call)); \
    complete = made->call != nullptr;                                               \
  }
  VMART_RUN_CALLS(ROW)
#undef ROW
  if (complete) return made;
  delete made;
  stand_aside(VMART_RUN_LIBRARY_NAME " is of another version");
  return nullptr;
}

}  // namespace

const VmartLibrary* VmartLibrary::load() noexcept {
  if (is_forked_child()) return nullptr;
  const VmartLibrary* none = library.load(std::memory_order_acquire);
  if (none != nullptr) return none;
  // No lock: the system's loader holds its own while constructors run, and they may call a hook.
  const VmartLibrary* const made = open();
  if (made == nullptr) return made;
  if (library.compare_exchange_strong(none, made)) {
    report_crashes(reinterpret_cast<const void*>(made->vmart_last_error));
    return made;
  }
  delete made;
  return none;
}

const VmartLibrary* VmartLibrary::loaded() noexcept {
  return is_forked_child() ? nullptr : library.load(std::memory_order_acquire);
}

}  // namespace vma::interpose
