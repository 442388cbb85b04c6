// How a program comes to call the hooks: `dlsym` and the driver's `cuGetProcAddress` return them
// instead of the driver's functions. Programs that are linked with the driver find the symbols of
// exports.cpp, because this library is loaded before it.
#include "entry_points/known_calls.hpp"
#include "entry_points/loader_stubs.hpp"
#include "entry_points/unknown_calls.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"
#include "interpose/hooks/deep_libraries.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/settings.hpp"
#include "interpose/standing.hpp"
#include "interpose/vmart_library.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string_view>

/// This process stands aside, and all memory stays where it lies.
void vma::before_unknown_call(std::string_view symbol) noexcept {
  using namespace vma::interpose;
  // Each call, so that none goes on before the memory stays.
  if (!takes_part() && (VmartLibrary::loaded() == nullptr || ProgramMemory::get().stays())) return;
  char why[160];
  std::snprintf(why, sizeof why,
                "the program calls %.*s, which this version of vmart does not follow",
                static_cast<int>(symbol.size()), symbol.data());
  ProgramMemory::get().keep_in_place(why);
}

namespace vma::interpose {
namespace {

using Dlsym = void* (*)(void*, const char*);

Dlsym find_next_dlsym() noexcept {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version)) {
      return reinterpret_cast<Dlsym>(found);
    }
  }
  return nullptr;
}

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

__attribute__((visibility("hidden"))) void* (*vmart_run_next_dlsym)(void*, const char*) = nullptr;

/// What `dlsym` returns to the program.
__attribute__((visibility("hidden"), used)) vma::LoaderAnswer vmart_run_found(void* handle,
                                                                              const char* symbol,
                                                                              const void* caller) {
  using vma::interpose::DriverLibrary;
  if (vmart_run_next_dlsym == nullptr) vmart_run_next_dlsym = vma::interpose::find_next_dlsym();
  vma::interpose::bind_deep_libraries();
  // RTLD_NEXT depends on who calls.
  if (symbol == nullptr || symbol[0] != 'c' || symbol[1] != 'u' || handle == RTLD_NEXT) {
    return {};
  }
  const vma::CallKind kind = vma::kind_of_call(symbol);
  if (kind == vma::CallKind::harmless) return {};
  // Also in a process that stands aside: it may have memory of vmart's.
  if (!vma::interpose::Settings::get().on || vma::interpose::is_vmart(caller)) return {};
  void* const function = vmart_run_next_dlsym(handle, symbol);
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

namespace vma::interpose {

void* next_dlsym(void* handle, const char* symbol) noexcept {
  if (vmart_run_next_dlsym == nullptr) vmart_run_next_dlsym = find_next_dlsym();
  return vmart_run_next_dlsym == nullptr ? nullptr : vmart_run_next_dlsym(handle, symbol);
}

}  // namespace vma::interpose
