#include "memory/chunk.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <exception>
#include <utility>

namespace vma {

void check_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                  std::span<const Accessor> accessors) noexcept {
  for (const Address address : {begin, begin + (size_bytes - 1)}) {
    for (const Accessor& accessor : accessors) {
      try {
        const Access granted = driver.access(address, accessor.who);
        VMART_CHECK(granted == accessor.access, "a slot grants the requested access");
      } catch (const std::exception& error) {
        log(LogLevel::debug, "cannot query the access rights at {:#x}: {}", to_integer(address),
            error.what());
      }
    }
  }
}

Reservation::Reservation(Driver& driver, Ledger& ledger, std::uint64_t size_bytes)
    : driver_(&driver),
      ledger_(&ledger),
      begin_(driver.reserve(size_bytes, 0)),
      size_bytes_(size_bytes) {}

Reservation Reservation::lent(Address begin, std::uint64_t size_bytes) noexcept {
  Reservation range;
  range.begin_ = begin;
  range.size_bytes_ = size_bytes;
  range.lent_ = true;
  return range;
}

Reservation::Reservation(Reservation&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)),
      ledger_(other.ledger_),
      begin_(other.begin_),
      size_bytes_(other.size_bytes_),
      lent_(other.lent_) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    unreserve();
    driver_ = std::exchange(other.driver_, nullptr);
    ledger_ = other.ledger_;
    begin_ = other.begin_;
    size_bytes_ = other.size_bytes_;
    lent_ = other.lent_;
  }
  return *this;
}

Reservation::~Reservation() {
  unreserve();
}

void Reservation::unreserve() noexcept {
  if (driver_ == nullptr) return;
  try {
    std::exchange(driver_, nullptr)->unreserve(begin_, size_bytes_);
  } catch (const std::exception& error) {
    ledger_->leaked("{} bytes of addresses at {:#x}: {}", size_bytes_, to_integer(begin_),
                    error.what());
  }
}

Chunk::Chunk(Driver& driver, Ledger& ledger, Place at, std::uint64_t size_bytes,
             std::span<const Accessor> readers)
    : Chunk(driver, ledger, {driver.create(at, size_bytes), at, size_bytes}, readers) {}

Chunk::Chunk(Driver& driver, Ledger& ledger, const ChunkMemory& memory,
             std::span<const Accessor> readers)
    : Chunk(driver, ledger, memory) {
  map_staging(readers);  // If it throws, the destructor releases the handle.
}

Chunk::Chunk(Driver& driver, Ledger& ledger, const ChunkMemory& memory) noexcept
    : driver_(&driver),
      ledger_(&ledger),
      handle_(memory.handle),
      at_(memory.at),
      size_bytes_(memory.size_bytes),
      types_(memory.types),
      imported_(memory.imported) {}

void Chunk::map_staging(std::span<const Accessor> readers) const {
  if (has_staging()) return;
  if (is_none(staging_.begin())) {  // Otherwise an earlier try could not grant it.
    Reservation staging(*driver_, *ledger_, size_bytes_);
    driver_->map(staging.begin(), size_bytes_, handle_);
    staging_ = std::move(staging);  // From here `release` unmaps it.
  }
  driver_->grant(staging_.begin(), size_bytes_, readers);
  granted_ = true;
}

Address Chunk::staging() const noexcept {
  VMART_CHECK(has_staging(), "a chunk is mapped for copies before anything is stopped");
  return staging_.begin();
}

Chunk& Chunk::operator=(Chunk&& other) noexcept {
  if (this != &other) {
    release();
    driver_ = other.driver_;
    ledger_ = other.ledger_;
    handle_ = std::exchange(other.handle_, ChunkHandle{});
    at_ = other.at_;
    size_bytes_ = other.size_bytes_;
    types_ = other.types_;
    imported_ = other.imported_;
    busy_ = other.busy_;
    shared_ = other.shared_;
    shown_ = other.shown_;
    staging_ = std::move(other.staging_);
    granted_ = std::exchange(other.granted_, false);
  }
  return *this;
}

Chunk::~Chunk() {
  release();
}

bool Chunk::release() noexcept {
  if (is_none(handle_)) return true;
  bool released = true;
  if (!is_none(staging_.begin())) {
    try {
      driver_->unmap(staging_.begin(), size_bytes_);
    } catch (const std::exception& error) {
      released = false;
      ledger_->leaked("{} bytes at {} behind {:#x}: {}", size_bytes_, to_string(at_),
                      to_integer(staging_.begin()), error.what());
      staging_.abandon();
    }
    staging_ = Reservation();
    granted_ = false;
  }
  try {
    driver_->release(handle_);
  } catch (const std::exception& error) {
    released = false;
    ledger_->leaked("{} bytes at {}: {}", size_bytes_, to_string(at_), error.what());
  }
  handle_ = ChunkHandle{};
  if (!released) ledger_->leak_bytes(at_, size_bytes_);
  return released;
}

void Chunk::abandon() noexcept {
  staging_.abandon();
  staging_ = Reservation();
  granted_ = false;
  handle_ = ChunkHandle{};
}

}  // namespace vma
