#pragma once

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

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

}  // namespace vma
