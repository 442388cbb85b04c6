#include "interpose/hooks/deep_libraries.hpp"

#include "base/loader/loaded_library.hpp"
#include "interpose/driver_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

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

/// The libraries that the process has at a moment.
struct Loaded {
  static Loaded now() {
    Loaded loaded;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) noexcept {
          auto& all = *static_cast<Loaded*>(out);
          all.number = info->dlpi_adds;
          try {
            all.bases.push_back(info->dlpi_addr);
          } catch (const std::bad_alloc&) {  // Those that are missing are bound the next time.
            all.number = 0;
            return 1;
          }
          return 0;
        },
        &loaded);
    return loaded;
  }
  unsigned long long number = 0;
  std::vector<ElfW(Addr)> bases;
};

/// A walk through the libraries that were there before it. The loader lets one walk at a time, and
/// waits with changes of its list.
struct Walk {
  const Loaded& loaded;
  const DriverLibrary* driver = nullptr;
  bool names_driver = false;  ///< Any library has a slot for a call of the driver that has a hook.
};

/// Replaces what leads past this library: the system's functions and the driver's, and slots that
/// are not filled yet, which point into the library itself. Without a driver, only those of the
/// system.
int bind(dl_phdr_info* info, std::size_t, void* data) noexcept {
  auto& walk = *static_cast<Walk*>(data);
  const LoadedLibrary library(*info);
  const std::string_view file = library.file();
  if (std::ranges::find(walk.loaded.bases, info->dlpi_addr) == walk.loaded.bases.end() ||
      library.contains(erased(&vmart_run_dlsym)) || file.starts_with("libvmart.so") ||
      file.starts_with("libcuda.so")) {
    return 0;
  }
  library.for_each_slot([&](const char* name, const void* bound) -> const void* {
    const bool unfilled = library.contains(bound);
    if (std::strcmp(name, "dlsym") == 0) {
      return unfilled || bound == erased(vmart_run_next_dlsym) ? erased(&vmart_run_dlsym) : nullptr;
    }
    if (std::strcmp(name, "dlopen") == 0) {
      return unfilled || bound == erased(vmart_run_next_dlopen) ? erased(&vmart_run_dlopen)
                                                                : nullptr;
    }
    if (name[0] != 'c' || name[1] != 'u') return nullptr;
    const void* const hook = DriverLibrary::hook_named(name);
    if (hook == nullptr) return nullptr;
    walk.names_driver = true;
    if (walk.driver == nullptr) return nullptr;
    return unfilled ? hook : walk.driver->hook_of(bound);
  });
  return 0;
}

}  // namespace

/// Holds no lock while it takes one of the loader's: a thread whose constructor runs inside
/// `dlopen` comes here with one.
void bind_deep_libraries() noexcept {
  static std::atomic<unsigned long long> bound = 0;
  if (!any_opened.load(std::memory_order_acquire) || libraries_loaded() == bound.load()) return;
  const Loaded loaded = Loaded::now();
  // A library is in the list before its slots are filled. Once this thread has had the lock of the
  // loader, those that were in it are filled.
  if (void* const program = vmart_run_next_dlopen(nullptr, RTLD_LAZY)) dlclose(program);
  Walk walk{loaded};
  dl_iterate_phdr(bind, &walk);
  if (walk.names_driver) {
    walk.driver = DriverLibrary::get();  // May open it, which no walk may do.
    if (walk.driver != nullptr) dl_iterate_phdr(bind, &walk);
  }
  bound = loaded.number;
}

}  // namespace vma::interpose

extern "C" __attribute__((visibility("hidden"), used)) void vmart_run_opens(int flags) {
  using namespace vma::interpose;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (vmart_run_next_dlopen != nullptr) break;
    void* const found = dlvsym(RTLD_NEXT, "dlopen", version);
    vmart_run_next_dlopen = reinterpret_cast<decltype(vmart_run_next_dlopen)>(found);
    if (found == nullptr) forget_loader_error();
  }
  if ((flags & RTLD_DEEPBIND) != 0) any_opened.store(true);
}

// Jumps to the next `dlopen` as if the caller had called that, since the search depends on it.
#if defined(__x86_64__)
asm(R"(
.pushsection .text
.globl dlopen
.type dlopen,@function
.globl vmart_run_dlopen
.hidden vmart_run_dlopen
.type vmart_run_dlopen,@function
.p2align 4
dlopen:
vmart_run_dlopen:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movl %esi, %edi
  call vmart_run_opens
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp *vmart_run_next_dlopen(%rip)
  .cfi_endproc
.size dlopen, .-dlopen
.popsection
)");
#elif defined(__aarch64__)
asm(R"(
.pushsection .text
.globl dlopen
.type dlopen,@function
.globl vmart_run_dlopen
.hidden vmart_run_dlopen
.type vmart_run_dlopen,@function
.p2align 4
dlopen:
vmart_run_dlopen:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  mov x29, sp
  stp x0, x1, [sp, #16]
  mov w0, w1
  bl vmart_run_opens
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  adrp x16, vmart_run_next_dlopen
  ldr x16, [x16, #:lo12:vmart_run_next_dlopen]
  br x16
  .cfi_endproc
.size dlopen, .-dlopen
.popsection
)");
#endif
