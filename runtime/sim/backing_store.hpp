#pragma once

#include "base/mutex.hpp"

#include <cstddef>
#include <cstdint>
#include <map>

namespace vma {

/// The real bytes of all simulated memory: one sparse in-memory file, mapped once as a whole, so
/// that the number of chunks does not affect the number of mappings. Fresh ranges are zero. Any
/// thread.
class BackingStore {
 public:
  /// Throws: Error{out_of_memory} if the host has no address space left.
  explicit BackingStore(std::uint64_t budget_bytes);
  ~BackingStore();
  BackingStore(const BackingStore&) = delete;
  BackingStore& operator=(const BackingStore&) = delete;

  /// Returns the offset. Throws: Error{out_of_memory} naming VMART_SIM_BYTES if the budget is
  /// exceeded.
  std::uint64_t allocate(std::uint64_t size_bytes);
  void free(std::uint64_t offset, std::uint64_t size_bytes) noexcept;
  /// Counts bytes that lie elsewhere against the budget. `book` throws as `allocate`.
  void book(std::uint64_t size_bytes);
  void unbook(std::uint64_t size_bytes) noexcept;
  std::byte* at(std::uint64_t offset) const noexcept { return base_ + offset; }

  /// Also maps the bytes for the CPU at `address`, replacing the mapping there. Throws:
  /// Error{out_of_memory} if the kernel has no mapping left.
  void show(void* address, std::uint64_t offset, std::uint64_t size_bytes, bool writable);
  /// Makes accesses to the address range fault again. Throws: as `show`; then nothing has changed.
  void hide(void* address, std::uint64_t size_bytes);

  std::uint64_t created_bytes() const;
  std::uint64_t budget_bytes() const noexcept { return budget_bytes_; }

 private:
  void require_budget(std::uint64_t size_bytes) const VMART_REQUIRES(mutex_);

  const std::uint64_t budget_bytes_;
  const std::uint64_t size_bytes_;
  int file_ = -1;
  std::byte* base_ = nullptr;
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> holes_ VMART_GUARDED_BY(mutex_);  // Offset to size.
  std::uint64_t created_bytes_ VMART_GUARDED_BY(mutex_) = 0;
};

/// Copies bytes that other threads may be writing, as devices do. Thread sanitizers ignore it.
void copy_device_bytes(std::byte* target, const std::byte* source, std::uint64_t size_bytes);
void fill_device_bytes(std::byte* target, std::byte value, std::uint64_t size_bytes);

}  // namespace vma
