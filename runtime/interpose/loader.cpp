#include "interpose/loader.hpp"

#include <dlfcn.h>

#include <initializer_list>

extern "C" {
__attribute__((visibility("hidden"))) void* (*vmart_run_next_dlsym)(void*, const char*) = nullptr;
}

namespace vma::interpose {

void find_next_dlsym() noexcept {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (vmart_run_next_dlsym != nullptr) return;
    vmart_run_next_dlsym =
        reinterpret_cast<decltype(vmart_run_next_dlsym)>(dlvsym(RTLD_NEXT, "dlsym", version));
  }
}

void* next_dlsym(void* handle, const char* symbol) noexcept {
  find_next_dlsym();
  return vmart_run_next_dlsym == nullptr ? nullptr : vmart_run_next_dlsym(handle, symbol);
}

/// Twice: the first call returns the message, and the second one frees it. The program would take
/// it for its own, too.
void forget_loader_error() noexcept {
  if (dlerror() != nullptr) dlerror();
}

}  // namespace vma::interpose
