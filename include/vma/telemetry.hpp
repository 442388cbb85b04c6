#pragma once

#include <vma/export.hpp>
#include <vma/place.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// `read_write` accesses the bytes twice; `unknown`, which is all that a launch shows, does once.
enum class UseKind : std::uint8_t { read, write, read_write, unknown };

/// A GPU reads or writes a range of memory, `passes` times.
struct Use {
  const void* address = nullptr;
  /// 0: unknown. Then it reaches to the next address in the allocation at which another such use
  /// has begun, or to the allocation's end.
  std::size_t bytes = 0;
  Place device;
  UseKind kind = UseKind::read;
  float passes = 1;
};

/// What a program knows about future uses of a range. The last hint for a range counts.
struct Hint {
  Place device;                                      ///< The GPU that will use it.
  std::optional<std::chrono::nanoseconds> next_use;  ///< From now; not set if unknown.
  double passes = 1;  ///< Passes over the range, starting at `next_use`.
  bool read_mostly = false;
  std::optional<std::chrono::nanoseconds> until;  ///< From now; after this time the hint expires.
};

/// Tells the process-wide runtime that work on `device` uses `bytes` starting at `address`. Call it
/// where the work is enqueued. Takes nanoseconds and no lock; never blocks. Uses of other memory
/// are counted and ignored. Uses that arrive too fast are sampled, and those lost even so are
/// counted. Uses of unknown extent or direction together count as no more than what the GPU can
/// have accessed in the time.
VMART_EXPORT void record_use(const void* address, std::size_t bytes, Place device,
                             UseKind kind = UseKind::read) noexcept;
VMART_EXPORT void record_uses(std::span<const Use> uses) noexcept;
/// Wakes the scheduler at once. Throws: Error{unknown_pointer, invalid_argument}. Does not block.
VMART_EXPORT void advise(const void* address, std::size_t bytes, const Hint& hint);

/// Load of one GPU as reported by NVML, for all processes together. Values that NVML does not
/// report are not set.
struct GpuLoad {
  Place at;
  std::optional<double> kernels;  ///< Fraction of time with a running kernel, 0 to 1.
  std::optional<double> memory;   ///< Fraction of time with memory reads or writes, 0 to 1.
  std::optional<std::size_t> memory_used_bytes;  ///< Including other processes and the driver.
  std::optional<std::size_t> memory_total_bytes;
  /// Bytes per second between the last two samples, over all links.
  std::optional<double> nvlink_sent_bytes_s, nvlink_received_bytes_s;  ///< Payload.
  std::optional<double> pcie_sent_bytes_s,
      pcie_received_bytes_s;  ///< Not set if the counters have 32 bits.
};

struct GpuLoads {
  /// `starting`: the first sample has not arrived yet.
  enum class State { off, starting, on };
  State state = State::off;
  std::string reason;                ///< Why it is off, or the first unavailable value.
  std::chrono::nanoseconds age{-1};  ///< Age of the sample; negative if there is none.
  std::vector<GpuLoad> gpus;         ///< Empty if there is no sample.
};

}  // namespace vma::inline v1
