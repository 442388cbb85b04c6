#include "interpose/hooks/deep_libraries.hpp"

#include "interpose/driver_library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

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

#if defined(__aarch64__)
constexpr unsigned call_slot = R_AARCH64_JUMP_SLOT, data_slot = R_AARCH64_GLOB_DAT;
#else
constexpr unsigned call_slot = R_X86_64_JUMP_SLOT, data_slot = R_X86_64_GLOB_DAT;
#endif

std::atomic<bool> any_opened = false;

/// One library of the process, and the tables of its dynamic section.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const dl_phdr_info& info) noexcept : info_(info) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info.dlpi_phdr[i];
      if (part.p_type == PT_DYNAMIC) read(address(part.p_vaddr));
      if (part.p_type == PT_GNU_RELRO) relro_ = &part;
    }
  }

  /// `replacement` returns null for slots that stay.
  template <typename Replacement>
  void for_each_slot(Replacement replacement) const noexcept {
    if (symbols_ == nullptr || texts_ == nullptr) return;
    visit(calls_, calls_bytes_, replacement);
    visit(data_, data_bytes_, replacement);
  }
  bool contains(const void* function) const noexcept {
    for (int i = 0; i < info_.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info_.dlpi_phdr[i];
      const auto begin = reinterpret_cast<std::uintptr_t>(address(part.p_vaddr));
      const auto inside = reinterpret_cast<std::uintptr_t>(function) - begin;
      if (part.p_type == PT_LOAD && inside < part.p_memsz) return true;
    }
    return false;
  }
  std::string_view file() const noexcept {
    const std::string_view path = info_.dlpi_name != nullptr ? info_.dlpi_name : "";
    return path.substr(path.rfind('/') + 1);
  }

 private:
  char* address(ElfW(Addr) offset) const noexcept {
    return reinterpret_cast<char*>(info_.dlpi_addr + offset);
  }
  /// The loader has made addresses of the offsets, unless the section cannot be written.
  template <typename Type>
  const Type* table(const ElfW(Dyn) & entry) const noexcept {
    const ElfW(Addr) at = entry.d_un.d_ptr;
    return reinterpret_cast<const Type*>(at < info_.dlpi_addr ? info_.dlpi_addr + at : at);
  }
  void read(const char* dynamic) noexcept {
    for (auto* entry = reinterpret_cast<const ElfW(Dyn)*>(dynamic); entry->d_tag != DT_NULL;
         ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: symbols_ = table<ElfW(Sym)>(*entry); break;
        case DT_STRTAB: texts_ = table<char>(*entry); break;
        case DT_JMPREL: calls_ = table<ElfW(Rela)>(*entry); break;
        case DT_PLTRELSZ: calls_bytes_ = entry->d_un.d_val; break;
        case DT_RELA: data_ = table<ElfW(Rela)>(*entry); break;
        case DT_RELASZ: data_bytes_ = entry->d_un.d_val; break;
        default: break;
      }
    }
  }
  template <typename Replacement>
  void visit(const ElfW(Rela) * slots, std::size_t bytes, Replacement replacement) const noexcept {
    if (slots == nullptr) return;
    for (std::size_t i = 0; i < bytes / sizeof *slots; ++i) {
      const auto type = static_cast<unsigned>(ELF64_R_TYPE(slots[i].r_info));
      if (type != call_slot && type != data_slot) continue;
      const char* const name = texts_ + symbols_[ELF64_R_SYM(slots[i].r_info)].st_name;
      auto* const slot = reinterpret_cast<const void**>(address(slots[i].r_offset));
      const void* const wanted = replacement(name, *slot);
      if (wanted != nullptr && wanted != *slot) write(slot, wanted);
    }
  }
  /// Most libraries have their slots in pages that the loader protects once they are filled; of the
  /// last one, only if it is whole.
  void write(const void** slot, const void* wanted) const noexcept {
    const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto page_of = [=](std::uintptr_t inside) { return inside / page_bytes * page_bytes; };
    const auto at = reinterpret_cast<std::uintptr_t>(slot);
    void* const page = reinterpret_cast<void*>(page_of(at));
    bool guarded = false;
    if (relro_ != nullptr) {
      const auto begin = reinterpret_cast<std::uintptr_t>(address(relro_->p_vaddr));
      guarded = at >= page_of(begin) && at < page_of(begin + relro_->p_memsz);
    }
    if (guarded && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_store_n(slot, wanted, __ATOMIC_RELEASE);
    if (guarded) mprotect(page, page_bytes, PROT_READ);
  }

  const dl_phdr_info& info_;
  const ElfW(Phdr) * relro_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* texts_ = nullptr;
  const ElfW(Rela) * calls_ = nullptr;
  const ElfW(Rela) * data_ = nullptr;
  std::size_t calls_bytes_ = 0, data_bytes_ = 0;
};

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
  /// How many the process has ever loaded.
  static unsigned long long number_now() noexcept {
    unsigned long long number = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) noexcept {
          *static_cast<unsigned long long*>(out) = info->dlpi_adds;
          return 1;
        },
        &number);
    return number;
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
  if (!any_opened.load(std::memory_order_acquire) || Loaded::number_now() == bound.load()) return;
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
