#pragma once

#include "driver/driver.hpp"
#include "memory/ledger.hpp"

#include <cstdint>

namespace vma {

/// A range of addresses without memory. Owns the range, unless it is lent; move-only.
///
/// Not thread-safe: its owner guards it.
class Reservation {
 public:
  Reservation() = default;
  /// Throws: Error{out_of_memory} when addresses run out.
  Reservation(Driver& driver, Ledger& ledger, std::uint64_t size_bytes);
  /// A range that somebody else has reserved, for at least as long as anything is mapped in it.
  static Reservation lent(Address begin, std::uint64_t size_bytes) noexcept;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  /// Requires: nothing is mapped in it, or it was abandoned. If the driver refuses, counts a leak.
  ~Reservation();

  Address begin() const noexcept { return begin_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  bool is_lent() const noexcept { return lent_; }

  /// Never gives the range back: something in it could not be unmapped, which the caller has
  /// counted.
  void abandon() noexcept { driver_ = nullptr; }

 private:
  void unreserve() noexcept;

  Driver* driver_ = nullptr;  // Null once moved from, and if it is lent.
  Ledger* ledger_ = nullptr;
  Address begin_{};
  std::uint64_t size_bytes_ = 0;
  bool lent_ = false;
};

}  // namespace vma
