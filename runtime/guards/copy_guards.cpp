#include "guards/copy_guards.hpp"

#include "base/executor.hpp"
#include "base/loader/new_libraries.hpp"
#include "base/process_exit.hpp"
#include "driver/cuda_api.hpp"
#include "entry_points/loader_stubs.hpp"
#include "guards/driver_guards.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <fmt/format.h>

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>

extern "C" {
__attribute__((visibility("hidden"))) void* (*vmart_next_dlsym)(void*, const char*) = nullptr;
__attribute__((visibility("hidden"))) void* (*vmart_next_dlopen)(const char*, int) = nullptr;
__attribute__((visibility("hidden"))) void* vmart_guarded_dlsym(void*, const char*);
__attribute__((visibility("hidden"))) void* vmart_guarded_dlopen(const char*, int);
}

namespace vma {
namespace {

std::atomic<const DriverGuards*> guards{nullptr};
int guarded_process = 0;  // Constant once there are guards.
NewLibraries libraries;

template <typename Function>
const void* erased(Function* function) noexcept {
  return reinterpret_cast<const void*>(function);
}

const void* replacement(const DriverGuards& known, const LoadedLibrary::Slot& slot) noexcept {
  const auto [name, bound, filled] = slot;
  if (name[0] == 'd') {
    if (std::strcmp(name, "dlsym") == 0) {
      return !filled || bound == erased(vmart_next_dlsym) ? erased(&vmart_guarded_dlsym) : nullptr;
    }
    if (std::strcmp(name, "dlopen") == 0) {
      return !filled || bound == erased(vmart_next_dlopen) ? erased(&vmart_guarded_dlopen)
                                                           : nullptr;
    }
    return nullptr;
  }
  // Those that are filled are found by where they lead, like the others in the library's data.
  return !filled && name[0] == 'c' && name[1] == 'u' ? known.guard_named(name) : nullptr;
}

/// The first library whose calls the system does not let be guarded.
struct Unguarded {
  char file[128] = {};
  int error = 0;
};

/// Inside a walk, so it must not allocate.
void guard(const LoadedLibrary& library, const DriverGuards& known, Unguarded& first) noexcept {
  if (library.contains(known.inside())) return;
  const bool slots = library.for_each_slot(
      [&](const LoadedLibrary::Slot& slot) { return replacement(known, slot); });
  const int error = errno;
  const bool words = library.for_each_word([&](const void* is) { return known.guard_of(is); });
  if ((slots && words) || first.error != 0) return;
  first.error = slots ? errno : error;
  library.file().copy(first.file, sizeof first.file - 1);
}

void note(const Unguarded& first) noexcept {
  try {
    CopyScopes::process().note_unguarded(
        fmt::format("the system does not let the calls of {} be guarded: {}",
                    first.file[0] == 0 ? "the program" : first.file,
                    std::error_code(first.error, std::generic_category()).message()));
  } catch (const std::exception&) {
    CopyScopes::process().note_unguarded("the system does not let calls of a library be guarded");
  }
}

/// Not in a forked child: it has no moves, and a lock of the loader may be held for ever in it.
void look() noexcept {
  const DriverGuards* const known = guards.load(std::memory_order_acquire);
  if (known == nullptr || ProcessExit::process() != guarded_process) return;
  Unguarded first;
  const int errno_before = errno;  // The program's, in its `dlsym`.
  libraries.visit(vmart_next_dlopen, [&](const LoadedLibrary& library) noexcept {
    guard(library, *known, first);
    return true;
  });
  if (first.error != 0) note(first);
  errno = errno_before;
}

/// Before a move, and the first allocation. Another thread may have stored what it had looked up
/// before, when the libraries were visited, so the first of these has them all visited again.
void look_before_move() noexcept {
  static std::atomic<bool> again;
  if (!again.load()) {  // Others that come meanwhile forget, too, which costs a visit.
    libraries.forget();
    again = true;
  }
  look();
}

/// Under `vmart run`, whose hooks have scopes: of this library, unless it has loaded another copy.
bool has_hooks(const CudaApi& driver) noexcept {
  constexpr const char* name = "vmart_run_guards_copies";
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {  // A shim in the place of the driver's library, or the driver's.
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library != nullptr && library != driver.library) found = dlsym(library, name);
  }
  dlerror();
  if (found == nullptr) return false;
  return reinterpret_cast<int (*)(const void*)>(found)(erased(&vmart_guarded_dlsym)) != 0;
}

void place() {
  const CudaApi& driver = cuda_api();
  if (has_hooks(driver)) return;
  const auto next = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  vmart_next_dlsym = reinterpret_cast<decltype(vmart_next_dlsym)>(next("dlsym"));
  vmart_next_dlopen = reinterpret_cast<decltype(vmart_next_dlopen)>(next("dlopen"));
  if (vmart_next_dlsym == nullptr || vmart_next_dlopen == nullptr) {
    CopyScopes::process().note_unguarded("the program has no dlsym and dlopen of its own");
    return;
  }
  // Where vmart is linked into a library that is closed again, its guards stay.
  Dl_info own{};
  if (dladdr(erased(&vmart_guarded_dlsym), &own) != 0) {
    dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    dlerror();
  }
  auto* const made = new DriverGuards(driver.library, reinterpret_cast<void*>(driver.resolve));
  made->publish();
  guarded_process = ProcessExit::process();
  guards.store(made, std::memory_order_release);
  look();
  CopyScopes::process().guarded_by(&look_before_move);
}

}  // namespace

void place_copy_guards() noexcept {
  static std::once_flag once;
  try {
    std::call_once(once, &place);
  } catch (const std::exception& error) {
    CopyScopes::process().note_unguarded(error.what());
  }
}

}  // namespace vma

extern "C" {

/// What `dlsym` returns to the program.
__attribute__((visibility("hidden"), used)) vma::LoaderAnswer vmart_dlsym_found(void* handle,
                                                                                const char* symbol,
                                                                                const void*) {
  using namespace vma;
  look();
  // RTLD_NEXT depends on who calls. Threads of vmart find the driver's functions.
  if (symbol == nullptr || symbol[0] != 'c' || symbol[1] != 'u' || handle == RTLD_NEXT ||
      InsideRuntime::here()) {
    return {};
  }
  const DriverGuards& known = *guards.load(std::memory_order_acquire);
  const void* const function = vmart_next_dlsym(handle, symbol);
  if (function == nullptr) return {};
  if (const void* const guard = known.guard_of(function)) return {guard, true};
  // Other libraries have functions of such names, too.
  Dl_info found{}, driver{};
  const bool in_driver = dladdr(function, &found) != 0 && dladdr(known.inside(), &driver) != 0 &&
                         found.dli_fbase == driver.dli_fbase;
  const void* const guard = in_driver ? known.guard_of(function, symbol) : nullptr;
  return {guard, guard != nullptr};
}

/// What `dlopen` returns to the program, once the library's calls are guarded. Which file a name
/// without a path means depends on who calls; such a library is guarded when something is looked up
/// in it, or before the next move. Where a path leads does not, nor do the files that the library
/// needs: the loader takes it for the child of nobody.
__attribute__((visibility("hidden"), used)) vma::LoaderAnswer vmart_dlopen_found(const char* path,
                                                                                 int flags,
                                                                                 const void*) {
  if (path == nullptr || std::strchr(path, '/') == nullptr || std::strchr(path, '$') != nullptr) {
    return {};
  }
  void* const handle = vmart_next_dlopen(path, flags);
  if (handle != nullptr) vma::look();
  return {handle, true};
}

}  // extern "C"

VMART_LOADER_STUB(vmart_guarded_dlsym, vmart_dlsym_found, vmart_next_dlsym);
VMART_LOADER_STUB(vmart_guarded_dlopen, vmart_dlopen_found, vmart_next_dlopen);
