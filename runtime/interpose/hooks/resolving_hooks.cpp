// How a program comes to call the hooks: `dlsym` and the driver's `cuGetProcAddress` return them
// instead of the driver's functions. Programs that are linked with the driver find the symbols of
// exports.cpp, because this library is loaded before it.
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"
#include "interpose/hooks/deep_libraries.hpp"
#include "interpose/known_calls.hpp"
#include "interpose/settings.hpp"
#include "interpose/unknown_calls.hpp"

#include <dlfcn.h>

#include <cstring>

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

void replace(const char* symbol, void** out) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  if (out == nullptr || *out == nullptr || driver == nullptr || symbol == nullptr) return;
  const void* const hook = driver->hook_of(*out);
  *out = const_cast<void*>(hook != nullptr ? hook : guard_of(*out, symbol));
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

/// What `dlsym` returns to the program; null: what the next `dlsym` returns.
__attribute__((visibility("hidden"), used)) const void* vmart_run_found(void* handle,
                                                                        const char* symbol,
                                                                        const void* caller) {
  using vma::interpose::DriverLibrary;
  if (vmart_run_next_dlsym == nullptr) vmart_run_next_dlsym = vma::interpose::find_next_dlsym();
  vma::interpose::bind_deep_libraries();
  // RTLD_NEXT depends on who calls.
  if (symbol == nullptr || symbol[0] != 'c' || symbol[1] != 'u' || handle == RTLD_NEXT) {
    return nullptr;
  }
  const vma::interpose::CallKind kind = vma::interpose::kind_of_call(symbol);
  if (kind == vma::interpose::CallKind::harmless) return nullptr;
  // Also in a process that stands aside: it may have memory of vmart's.
  if (!vma::interpose::Settings::get().on || vma::interpose::is_vmart(caller)) return nullptr;
  void* const function = vmart_run_next_dlsym(handle, symbol);
  if (function == nullptr) return nullptr;
  const bool in_driver = vma::interpose::is_in_driver(function);
  if (kind != vma::interpose::CallKind::hooked && !in_driver) return nullptr;
  DriverLibrary::open_around(function);
  const DriverLibrary* const driver = DriverLibrary::get();
  const void* const hook = driver != nullptr ? driver->hook_of(function) : nullptr;
  return hook == nullptr && in_driver ? vma::interpose::guard_of(function, symbol) : hook;
}

}  // extern "C"

// If there is no hook, jumps to the next `dlsym` as if the caller had called that.
#if defined(__x86_64__)
asm(R"(
.pushsection .text
.globl dlsym
.type dlsym,@function
.globl vmart_run_dlsym
.hidden vmart_run_dlsym
.type vmart_run_dlsym,@function
.p2align 4
dlsym:
vmart_run_dlsym:
  .cfi_startproc
  endbr64
  movq (%rsp), %rdx
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call vmart_run_found
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jne 1f
  jmp *vmart_run_next_dlsym(%rip)
1: ret
  .cfi_endproc
.size dlsym, .-dlsym
.popsection
)");
#elif defined(__aarch64__)
asm(R"(
.pushsection .text
.globl dlsym
.type dlsym,@function
.globl vmart_run_dlsym
.hidden vmart_run_dlsym
.type vmart_run_dlsym,@function
.p2align 4
dlsym:
vmart_run_dlsym:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  mov x29, sp
  stp x0, x1, [sp, #16]
  mov x2, x30
  bl vmart_run_found
  cbnz x0, 1f
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  adrp x16, vmart_run_next_dlsym
  ldr x16, [x16, #:lo12:vmart_run_next_dlsym]
  br x16
1: ldp x29, x30, [sp], #32
  ret
  .cfi_endproc
.size dlsym, .-dlsym
.popsection
)");
#endif

namespace vma::interpose {

void* next_dlsym(void* handle, const char* symbol) noexcept {
  if (vmart_run_next_dlsym == nullptr) vmart_run_next_dlsym = find_next_dlsym();
  return vmart_run_next_dlsym == nullptr ? nullptr : vmart_run_next_dlsym(handle, symbol);
}

}  // namespace vma::interpose
