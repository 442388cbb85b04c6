#include "memory/reservation.hpp"

#include <exception>
#include <utility>

namespace vma {

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

}  // namespace vma
