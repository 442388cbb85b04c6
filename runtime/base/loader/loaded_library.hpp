#pragma once

#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vma {

/// Reads memory of this process that other threads write, protect and unmap meanwhile. One thread;
/// allocates nothing.
class OwnMemory {
 public:
  OwnMemory() noexcept : pages_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~OwnMemory() {
    if (pages_ >= 0) ::close(pages_);
    if (memory_ >= 0) ::close(memory_);
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  /// `visit` takes a word and where it lies. Leaves pages out that nobody has touched and that
  /// nobody can read. False: the system lets none be read, and errno says why.
  template <typename Visit>
  bool for_each_word(std::uintptr_t begin, std::uintptr_t end, Visit visit) noexcept {
    constexpr std::uintptr_t word = sizeof(void*);
    std::array<const void*, 512> words;
    for (std::uintptr_t at = (begin + word - 1) / word * word; at + word <= end;) {
      const std::uintptr_t page_end = (at / page_bytes_ + 1) * page_bytes_;
      if (!touched(at)) {
        at = page_end;
        continue;
      }
      const std::size_t wanted = std::min({page_end - at, sizeof words, (end - at) / word * word});
      const auto bytes = read(at, words.data(), wanted);
      if (bytes < 0) return false;
      for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / word; ++i) {
        visit(words[i], at + i * word);
      }
      at += wanted;
    }
    return true;
  }

 private:
  /// Whether the page has ever been there: it is now, or lies in swap. True if the system does not
  /// say.
  bool touched(std::uintptr_t at) noexcept {
    constexpr std::uint64_t present_or_swapped = std::uint64_t{3} << 62;
    const std::uintptr_t page = at / page_bytes_;
    if (page - first_ >= known_) {
      const auto offset = static_cast<off_t>(page * sizeof states_.front());
      const ssize_t bytes = ::pread(pages_, states_.data(), sizeof states_, offset);
      first_ = page;
      known_ = bytes < 0 ? 0 : static_cast<std::size_t>(bytes) / sizeof states_.front();
      if (known_ == 0) return true;
    }
    return (states_[page - first_] & present_or_swapped) != 0;
  }
  /// How many bytes could be read: 0 from a page that is protected; negative if there is no way.
  ssize_t read(std::uintptr_t at, void* to, std::size_t bytes) noexcept {
    if (memory_ < 0) {
      const iovec local{to, bytes}, own{reinterpret_cast<void*>(at), bytes};
      const ssize_t done = ::process_vm_readv(process_, &local, 1, &own, 1, 0);
      if (done >= 0) return done;
      if (errno == EFAULT) return 0;
      memory_ = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);  // Some sandboxes forbid the call.
      if (memory_ < 0) return -1;
    }
    return std::max<ssize_t>(::pread(memory_, to, bytes, static_cast<off_t>(at)), 0);
  }

  const pid_t process_ = ::getpid();
  const std::uintptr_t page_bytes_ = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const int pages_;
  int memory_ = -1;                         // Once it is needed.
  std::array<std::uint64_t, 64> states_{};  // Of the pages from `first_` on.
  std::uintptr_t first_ = 0;
  std::size_t known_ = 0;
};

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
/// calls functions of others, and its data. Lives within one call of `dl_iterate_phdr`.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const dl_phdr_info& info) noexcept : info_(info) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info.dlpi_phdr[i];
      if (part.p_type == PT_DYNAMIC) read(address(part.p_vaddr));
      if (part.p_type == PT_GNU_RELRO) relro_ = &part;
    }
  }

  /// A slot of the name and what it leads to. A slot that is not filled yet leads to code of the
  /// library itself that would fill it at the first call.
  struct Slot {
    const char* name;
    const void* bound;
    bool filled;
  };

  /// `replacement` returns null for slots that stay. False: the system lets one not be written, and
  /// errno says why.
  template <typename Replacement>
  bool for_each_slot(Replacement replacement) const noexcept {
    if (symbols_ == nullptr || texts_ == nullptr) return true;
    const bool calls = visit(calls_, calls_bytes_, replacement);
    return visit(data_, data_bytes_, replacement) && calls;
  }
  /// The same for all words of the library's writable data, as the library itself may have stored
  /// there what it has looked up.
  template <typename Replacement>
  bool for_each_word(Replacement replacement) const noexcept {
    int error = 0;
    {
      OwnMemory memory;
      for (int i = 0; i < info_.dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info_.dlpi_phdr[i];
        if (part.p_type != PT_LOAD || (part.p_flags & (PF_R | PF_W)) != (PF_R | PF_W)) continue;
        const auto begin = reinterpret_cast<std::uintptr_t>(address(part.p_vaddr));
        const auto replace = [&](const void* is, std::uintptr_t at) {
          const void* const wanted = replacement(is);
          if (wanted == nullptr || wanted == is) return;
          if (!write(reinterpret_cast<const void**>(at), is, wanted)) error = errno;
        };
        if (!memory.for_each_word(begin, begin + part.p_memsz, replace)) error = errno;
      }
    }
    errno = error;
    return error == 0;
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
  bool visit(const ElfW(Rela) * slots, std::size_t bytes, Replacement replacement) const noexcept {
    bool all = true;
    if (slots == nullptr) return all;
    for (std::size_t i = 0; i < bytes / sizeof *slots; ++i) {
      const auto type = static_cast<unsigned>(ELF64_R_TYPE(slots[i].r_info));
      if (type != call_slot && type != data_slot) continue;
      const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(slots[i].r_info)];
      auto* const slot = reinterpret_cast<const void**>(address(slots[i].r_offset));
      const void* const bound = __atomic_load_n(slot, __ATOMIC_RELAXED);
      const bool filled = symbol.st_shndx != SHN_UNDEF || !contains(bound);
      const void* const wanted = replacement(Slot{texts_ + symbol.st_name, bound, filled});
      if (wanted != nullptr && wanted != bound) all = write(slot, bound, wanted) && all;
    }
    return all;
  }
  /// Most libraries have their slots in pages that the loader protects once they are filled; of the
  /// last one, only if it is whole. Leaves a slot alone that another thread writes meanwhile.
  bool write(const void** slot, const void* bound, const void* wanted) const noexcept {
    const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto page_of = [=](std::uintptr_t inside) { return inside / page_bytes * page_bytes; };
    const auto at = reinterpret_cast<std::uintptr_t>(slot);
    void* const page = reinterpret_cast<void*>(page_of(at));
    bool guarded = false;
    if (relro_ != nullptr) {
      const auto begin = reinterpret_cast<std::uintptr_t>(address(relro_->p_vaddr));
      guarded = at >= page_of(begin) && at < page_of(begin + relro_->p_memsz);
    }
    if (guarded && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
    if (!guarded && !may_write(slot)) return false;
    __atomic_compare_exchange_n(slot, &bound, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    if (guarded) mprotect(page, page_bytes, PROT_READ);
    return true;
  }

  /// Adds 0 to the word, by a call that fails where the program has protected the page.
  static bool may_write(const void** slot) noexcept {
    int nobody_waits = 0;
    const int add = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
    const long woken = syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0,
                               nullptr, slot, add);
    if (woken >= 0 || errno != EFAULT) return true;
    errno = EACCES;
    return false;
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
