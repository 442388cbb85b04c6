#pragma once

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vma {

/// How many libraries the process has ever loaded.
inline unsigned long long libraries_loaded() noexcept {
  unsigned long long loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = library->dlpi_adds;
        return 1;  // All libraries report the same value.
      },
      &loaded);
  return loaded;
}

/// One library of the process, and the tables of its dynamic section: the slots through which it
/// calls functions of others. Lives within one call of `dl_iterate_phdr`.
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
#if defined(__aarch64__)
  static constexpr unsigned call_slot = R_AARCH64_JUMP_SLOT, data_slot = R_AARCH64_GLOB_DAT;
#else
  static constexpr unsigned call_slot = R_X86_64_JUMP_SLOT, data_slot = R_X86_64_GLOB_DAT;
#endif

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

}  // namespace vma
