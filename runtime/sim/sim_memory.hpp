#pragma once

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "driver/native_codes.hpp"
#include "machine/cost_model.hpp"
#include "machine/machine_description.hpp"
#include "sim/backing_store.hpp"
#include "sim/chunk_file.hpp"

#include <vma/place.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {

/// A fault that makes a device unusable. Work on a stream throws it, and it becomes a sticky error.
/// Never leaves the simulator.
class DeviceFault : public std::runtime_error {
 public:
  DeviceFault(int native, const std::string& what) : std::runtime_error(what), native_(native) {}

  static DeviceFault illegal_address(int device, Address address, const char* why) {
    return {native_illegal_address,
            fmt::format("gpu({}) at {:#x}: {}", device, to_integer(address), why)};
  }

  int native() const noexcept { return native_; }

 private:
  int native_;
};

/// The physical memory of one simulated chunk. Alive while a handle, a mapping or work in progress
/// refers to it; then its bytes and its share of the place's capacity are released.
class SimChunk {
 public:
  using Counter = std::shared_ptr<std::atomic<std::uint64_t>>;

  /// `used` counts the bytes of the place; the caller has already added this chunk's.
  SimChunk(ChunkHandle handle, Place at, std::uint64_t size_bytes, BackingStore& store,
           Counter used)
      : handle_(handle), at_(at), size_bytes_(size_bytes), store_(store), used_(std::move(used)) {
    offset_ = store_.allocate(size_bytes);
  }
  /// The same, with bytes that lie in a file. If the chunk is `imported`, its bytes are booked
  /// where it was created, and `used` is null.
  SimChunk(ChunkHandle handle, std::unique_ptr<ChunkFile> file, BackingStore& store, Counter used)
      : handle_(handle),
        at_(file->label().at),
        size_bytes_(file->label().size_bytes),
        store_(store),
        used_(std::move(used)),
        file_(std::move(file)) {
    if (used_) store_.book(size_bytes_);
  }
  ~SimChunk() {
    if (!file_) {
      store_.free(offset_, size_bytes_);
    } else if (used_) {
      store_.unbook(size_bytes_);
    }
    if (used_) used_->fetch_sub(size_bytes_);
  }
  SimChunk(const SimChunk&) = delete;
  SimChunk& operator=(const SimChunk&) = delete;

  ChunkHandle handle() const noexcept { return handle_; }
  Place at() const noexcept { return at_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  std::byte* bytes() const noexcept { return file_ ? file_->bytes() : store_.at(offset_); }
  /// Null for a chunk that cannot be exported.
  const ChunkFile* file() const noexcept { return file_.get(); }
  /// As `BackingStore::show`.
  void show(void* address, bool writable) const {
    if (file_) return file_->show(address, writable);
    store_.show(address, offset_, size_bytes_, writable);
  }

  // Guarded by the lock of SimMemory.
  bool granted_before = false;
  std::vector<std::uint64_t> mapped_at;  ///< Where its mappings begin.

 private:
  const ChunkHandle handle_;
  const Place at_;
  const std::uint64_t size_bytes_;
  BackingStore& store_;
  const Counter used_;
  const std::unique_ptr<ChunkFile> file_;
  std::uint64_t offset_ = 0;
};

/// A run of bytes that a device may access now. Holds the chunk, so that the bytes stay valid even
/// if they are unmapped meanwhile.
struct SimSegment {
  std::byte* bytes = nullptr;
  std::uint64_t size_bytes = 0;
  Place at;
  std::shared_ptr<SimChunk> chunk;  ///< Null for pageable memory of the host.
  std::uint64_t offset = 0;         ///< In the chunk.
};

/// The address space and the physical memory of a simulated machine: reservations, chunks,
/// mappings, access rights, and the driver's other memory.
///
/// Every call checks before it changes anything, so a refused call has no effect. Any thread; calls
/// no other part of the simulator.
/// One owner: a call checks reservations, handles and mappings together before it changes one.
class SimMemory {
 public:
  SimMemory(const MachineDescription& machine, const CostModel& costs, BackingStore& store,
            std::uint64_t first_handle, std::uint64_t seed);
  ~SimMemory();

  Address reserve(std::uint64_t size_bytes, std::uint64_t alignment);
  void unreserve(Address begin, std::uint64_t size_bytes);
  ChunkHandle create(Place at, std::uint64_t size_bytes, bool exportable = false);
  int export_chunk(ChunkHandle chunk);
  ChunkHandle import_chunk(int descriptor);
  void release(ChunkHandle chunk);
  void map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk);
  void unmap(Address begin, std::uint64_t size_bytes);
  void grant(Address begin, std::uint64_t size_bytes, std::span<const Accessor> accessors);
  Access access(Address address, Place who) const;
  ChunkHandle retain_handle(Address address);
  AddressRange address_range(Address address) const;
  PointerInfo pointer_info(Address address) const;

  /// Whether any GPU or the CPU may access one of the mappings that make up the range.
  bool anybody_has_access(Address begin, std::uint64_t size_bytes) const;
  /// Whether the device may read but not write some of the range.
  bool partly_read_only(int device, Address begin, std::uint64_t size_bytes) const;

  /// What the calls would cost now; zero if the call would be refused.
  TimePoint release_cost(ChunkHandle chunk) const;
  TimePoint unmap_cost(Address begin, std::uint64_t size_bytes) const;
  TimePoint grant_cost(Address begin, std::uint64_t size_bytes,
                       std::span<const Accessor> accessors) const;

  void* allocate_pinned(std::size_t size_bytes);
  void free_pinned(void* pointer);
  Address allocate_plain(DeviceId device, std::size_t size_bytes);
  /// Throws for an address that is not the start of plain memory of the device.
  void require_plain(DeviceId device, Address begin) const;
  void free_plain(DeviceId device, Address begin);

  /// The bytes from `address` to the end of its mapping, for `device`. Throws: DeviceFault if there
  /// is no mapping or the device has no access.
  SimSegment touch(int device, Address address, bool write) const;
  /// Like `touch`, for copies: addresses outside the machine's memory are the host's own, and the
  /// driver's ordinary memory of other devices is accessible.
  SimSegment touch_or_host(int device, Address address, std::uint64_t size_bytes, bool write) const;
  /// Whether all of the range is mapped and granted to anybody, or belongs to the host process.
  /// `pageable` returns whether any of it does the latter.
  bool covered(Address begin, std::uint64_t size_bytes, bool& pageable) const;

  /// Memory that the driver itself uses on a device. Throws: Error{out_of_memory}.
  void take(DeviceId device, std::uint64_t size_bytes);
  void give_back(DeviceId device, std::uint64_t size_bytes) noexcept;
  std::uint64_t free_bytes(DeviceId device) const;

  void list_leaks(std::vector<std::string>& leaks) const;

 private:
  enum class Use { chunk, plain, pinned };
  struct Mapping {
    Use use = Use::chunk;
    std::uint64_t size_bytes = 0;
    std::shared_ptr<SimChunk> chunk;
    std::vector<Access> gpus;
    Access cpu = Access::none;
    std::uint64_t buffer_id = 0;
  };
  struct Handle {
    std::shared_ptr<SimChunk> chunk;
    int references = 1;
  };
  using Mappings = std::map<std::uint64_t, Mapping>;
  static bool granted(const Mapping& mapping) noexcept;  // To anybody.
  /// The number of mappings of one owner's memory for one reader, by size class.
  struct MappingCounts {
    int small = 0, large = 0;
  };

  std::uint64_t& reservation_around(Address begin, std::uint64_t size_bytes, const char* call)
      VMART_REQUIRES(mutex_);
  Mappings::const_iterator find(Address address) const VMART_REQUIRES(mutex_);
  /// The mappings that fill the range exactly; empty if none do.
  std::vector<Mappings::const_iterator> whole_mappings(Address begin,
                                                       std::uint64_t size_bytes) const
      VMART_REQUIRES(mutex_);
  void check_accessors(const Mapping& mapping, std::span<const Accessor> accessors) const;
  TimePoint grant_cost_of(const Mapping& mapping, std::uint64_t begin,
                          std::span<const Accessor> accessors) const VMART_REQUIRES(mutex_);
  bool shown_elsewhere(const Mapping& mapping, std::uint64_t begin,
                       std::span<const Accessor> accessors) const VMART_REQUIRES(mutex_);
  void count_standing(const Mapping& mapping, int change) VMART_REQUIRES(mutex_);
  void require_place(Place at, const char* call) const;
  std::shared_ptr<SimChunk> make_chunk(Place at, std::uint64_t size_bytes, const char* call,
                                       bool exportable = false);
  const SimChunk::Counter& used(Place at) const;
  std::uint64_t capacity(Place at) const;
  bool large(std::uint64_t size_bytes) const;
  SimSegment touch_as(int device, Address address, bool write, bool copies) const;

  const MachineDescription& machine_;
  const CostModel& costs_;
  BackingStore& store_;
  std::vector<SimChunk::Counter> gpu_used_, node_used_;  // Constant after construction.
  const std::uint64_t seed_;                             // Of the junk in fresh memory.
  std::atomic<std::uint64_t> next_handle_;

  mutable Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> reservations_ VMART_GUARDED_BY(mutex_);
  Mappings mappings_ VMART_GUARDED_BY(mutex_);
  std::map<ChunkHandle, Handle> handles_ VMART_GUARDED_BY(mutex_);
  std::vector<std::vector<MappingCounts>> mapping_counts_
      VMART_GUARDED_BY(mutex_);  // [owner][reader]
  std::uint64_t next_buffer_id_ VMART_GUARDED_BY(mutex_) = 1;
};

}  // namespace vma
