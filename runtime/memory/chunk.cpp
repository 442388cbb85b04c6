#include "memory/chunk.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace vma {

Chunk::Chunk(Driver& driver, Ledger& ledger, Location at, std::uint64_t size_bytes,
             std::span<const Accessor> readers)
    : driver_(&driver), ledger_(&ledger), at_(at), size_bytes_(size_bytes) {
  handle_ = driver.create(at, size_bytes);
  try {
    map_staging(readers);
  } catch (...) {
    destroy();
    throw;
  }
}

void Chunk::map_staging(std::span<const Accessor> readers) {
  Reservation staging(*driver_, *ledger_, size_bytes_);
  driver_->map(staging.begin(), size_bytes_, handle_);
  staging_ = std::move(staging);  // From here `destroy` unmaps it.
  driver_->grant(staging_.begin(), size_bytes_, readers);
}

Chunk& Chunk::operator=(Chunk&& other) noexcept {
  if (this != &other) {
    destroy();
    driver_ = other.driver_;
    ledger_ = other.ledger_;
    handle_ = std::exchange(other.handle_, ChunkHandle{});
    at_ = other.at_;
    size_bytes_ = other.size_bytes_;
    staging_ = std::move(other.staging_);
  }
  return *this;
}

Chunk::~Chunk() {
  destroy();
}

void Chunk::destroy() noexcept {
  if (is_none(handle_)) return;
  if (!is_none(staging_.begin())) {
    try {
      driver_->unmap(staging_.begin(), size_bytes_);
    } catch (const std::exception& error) {
      staging_.abandon(error.what());
    }
    staging_ = Reservation();
  }
  try {
    driver_->release(handle_);
  } catch (const std::exception& error) {
    ledger_->leaked(fmt::format("{} bytes at {}: {}", size_bytes_, to_string(at_), error.what()));
  }
  handle_ = ChunkHandle{};
}

}  // namespace vma
