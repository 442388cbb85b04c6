#pragma once

#include "base/ids.hpp"
#include "sim/backing_store.hpp"

#include <vma/location.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace vma {

/// The physical memory of one simulated chunk. Alive while a handle, a mapping or work in flight
/// has it; then its bytes and its share of the location's capacity go back.
class SimChunk {
 public:
  using Counter = std::shared_ptr<std::atomic<std::uint64_t>>;

  /// `used` counts the bytes of the location; the caller has added these already.
  SimChunk(ChunkHandle handle, Location at, std::uint64_t size_bytes, BackingStore& store,
           Counter used)
      : handle_(handle), at_(at), size_bytes_(size_bytes), store_(store), used_(std::move(used)) {
    offset_ = store_.allocate(size_bytes);
  }
  ~SimChunk() {
    store_.free(offset_, size_bytes_);
    used_->fetch_sub(size_bytes_);
  }
  SimChunk(const SimChunk&) = delete;
  SimChunk& operator=(const SimChunk&) = delete;

  ChunkHandle handle() const noexcept { return handle_; }
  Location at() const noexcept { return at_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  std::uint64_t offset() const noexcept { return offset_; }
  std::byte* bytes() const noexcept { return store_.at(offset_); }

  bool granted_before = false;  ///< Guarded by the lock of SimMemory.

 private:
  const ChunkHandle handle_;
  const Location at_;
  const std::uint64_t size_bytes_;
  BackingStore& store_;
  const Counter used_;
  std::uint64_t offset_ = 0;
};

}  // namespace vma
