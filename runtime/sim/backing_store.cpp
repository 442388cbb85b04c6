#include "sim/backing_store.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "driver/native_codes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VMART_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define VMART_THREAD_SANITIZER 1
#endif

namespace vma {
namespace {

constexpr std::uint64_t page_bytes = 4 * KiB;
/// Leaves room for holes between chunks of different sizes.
constexpr std::uint64_t address_space_per_budget = 4;

Error refused(const char* what) {
  return driver_error(native_out_of_memory, "SimDriver",
                      fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

BackingStore::BackingStore(std::uint64_t budget_bytes)
    : budget_bytes_(budget_bytes),
      size_bytes_(
          round_up(std::max(budget_bytes, 16 * MiB) * address_space_per_budget, page_bytes)) {
  file_ = memfd_create("vmart-sim", MFD_CLOEXEC);
  if (file_ < 0) throw refused("memfd_create");
  void* base = MAP_FAILED;
  if (ftruncate(file_, static_cast<off_t>(size_bytes_)) == 0) {
    base = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  }
  if (base == MAP_FAILED) {
    const Error error = refused("memory for the simulated machine");
    close(file_);
    throw error;
  }
  base_ = static_cast<std::byte*>(base);
  holes_[0] = size_bytes_;
}

BackingStore::~BackingStore() {
  munmap(base_, size_bytes_);
  close(file_);
}

void BackingStore::require_budget(std::uint64_t size_bytes) const {
  if (size_bytes <= budget_bytes_ - created_bytes_) return;
  throw driver_error(
      native_out_of_memory, "cuMemCreate",
      fmt::format("{} bytes exceed the {} that VMART_SIM_BYTES allows the simulated machine, of "
                  "which {} are in use; raise VMART_SIM_BYTES",
                  size_bytes, budget_bytes_, created_bytes_));
}

void BackingStore::book(std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  require_budget(size_bytes);
  created_bytes_ += size_bytes;
}

void BackingStore::unbook(std::uint64_t size_bytes) noexcept {
  const MutexLock lock(mutex_);
  created_bytes_ -= size_bytes;
}

std::uint64_t BackingStore::allocate(std::uint64_t size_bytes) {
  const std::uint64_t size = round_up(size_bytes, page_bytes);
  const MutexLock lock(mutex_);
  require_budget(size < size_bytes ? size_bytes : size);
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < size) continue;
    const auto [offset, hole_size] = *hole;
    holes_.erase(hole);
    if (hole_size > size) holes_[offset + size] = hole_size - size;
    created_bytes_ += size;
    return offset;
  }
  throw driver_error(native_out_of_memory, "cuMemCreate",
                     "the simulated memory is fragmented; raise VMART_SIM_BYTES");
}

void BackingStore::free(std::uint64_t offset, std::uint64_t size_bytes) noexcept {
  std::uint64_t size = round_up(size_bytes, page_bytes);
  // Returns the pages to the kernel, so that the range reads as zero when it is reused.
  if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(size)) != 0) {
    std::memset(at(offset), 0, size);
  }
  const MutexLock lock(mutex_);
  created_bytes_ -= size;
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + size) {
    size += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  holes_[offset] = size;
}

void BackingStore::show(void* address, std::uint64_t offset, std::uint64_t size_bytes,
                        bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  if (mmap(address, size_bytes, protection, MAP_SHARED | MAP_FIXED, file_,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    throw driver_error(native_out_of_memory, "cuMemSetAccess", std::strerror(errno));
  }
}

void BackingStore::hide(void* address, std::uint64_t size_bytes) {
  const void* hidden = mmap(address, size_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (hidden == address) return;
  // At the limit of mappings (vm.max_map_count) the kernel does not even replace one.
  if (mprotect(address, size_bytes, PROT_NONE) == 0) return;
  throw driver_error(native_out_of_memory, "cuMemUnmap", std::strerror(errno));
}

std::uint64_t BackingStore::created_bytes() const {
  const MutexLock lock(mutex_);
  return created_bytes_;
}

#ifdef VMART_THREAD_SANITIZER

// A device does not care about data races; the race detector reports accesses that a program fails
// to order. The loops are hidden from the sanitizer, which would intercept memcpy.
__attribute__((no_sanitize("thread"))) void copy_device_bytes(std::byte* target,
                                                              const std::byte* source,
                                                              std::uint64_t size_bytes) {
  std::uint64_t at = 0;
  const auto together =
      reinterpret_cast<std::uintptr_t>(target) | reinterpret_cast<std::uintptr_t>(source);
  if (together % sizeof(std::uint64_t) == 0) {
    for (; at + sizeof(std::uint64_t) <= size_bytes; at += sizeof(std::uint64_t)) {
      *reinterpret_cast<volatile std::uint64_t*>(target + at) =
          *reinterpret_cast<const volatile std::uint64_t*>(source + at);
    }
  }
  for (; at < size_bytes; ++at) {
    *reinterpret_cast<volatile std::byte*>(target + at) =
        *reinterpret_cast<const volatile std::byte*>(source + at);
  }
}

__attribute__((no_sanitize("thread"))) void fill_device_bytes(std::byte* target, std::byte value,
                                                              std::uint64_t size_bytes) {
  for (std::uint64_t at = 0; at < size_bytes; ++at) {
    *reinterpret_cast<volatile std::byte*>(target + at) = value;
  }
}

#else

void copy_device_bytes(std::byte* target, const std::byte* source, std::uint64_t size_bytes) {
  if (size_bytes == sizeof(std::uint64_t) &&
      (reinterpret_cast<std::uintptr_t>(target) | reinterpret_cast<std::uintptr_t>(source)) % 8 ==
          0) {
    // A device stores an aligned word in one piece.
    *reinterpret_cast<volatile std::uint64_t*>(target) =
        *reinterpret_cast<const volatile std::uint64_t*>(source);
    return;
  }
  std::memmove(target, source, size_bytes);
}

void fill_device_bytes(std::byte* target, std::byte value, std::uint64_t size_bytes) {
  std::memset(target, static_cast<int>(value), size_bytes);
}

#endif

}  // namespace vma
