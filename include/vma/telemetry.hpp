#pragma once

#include <vma/export.hpp>
#include <vma/location.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace vma::inline v1 {

enum class UseKind : std::uint8_t { read, write, read_write };

/// A GPU goes over a range of memory, `passes` times.
struct Use {
  const void* address = nullptr;
  std::size_t bytes = 0;
  Location device;
  UseKind kind = UseKind::read;
  float passes = 1;
};

/// What a program knows of the future of a range. The last hint of a range counts.
struct Hint {
  Location device;                                   ///< That will use it.
  std::optional<std::chrono::nanoseconds> next_use;  ///< From now; not set: nobody knows.
  double passes = 1;                                 ///< Over the range, from `next_use` on.
  bool read_mostly = false;
  std::optional<std::chrono::nanoseconds> until;  ///< From now; then the hint is forgotten.
};

/// Tells the process-wide runtime that work on `device` uses `bytes` from `address` on. Call it
/// where the work is enqueued. Nanoseconds; takes no lock and never blocks. What is not memory of
/// the runtime is counted and ignored; what comes faster than it can be looked at is sampled, and
/// what even that loses is counted.
VMART_EXPORT void record_use(const void* address, std::size_t bytes, Location device,
                             UseKind kind = UseKind::read) noexcept;
VMART_EXPORT void record_uses(std::span<const Use> uses) noexcept;
/// Wakes the scheduler at once. Throws: Error{unknown_pointer, invalid_argument}. Does not block.
VMART_EXPORT void advise(const void* address, std::size_t bytes, const Hint& hint);

}  // namespace vma::inline v1
