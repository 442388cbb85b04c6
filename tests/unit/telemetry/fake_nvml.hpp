#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace vma {

/// The answers of the fake NVML; the library exports one as `fake_nvml`. Any thread.
struct FakeNvml {
  /// The calls that fail, by their order in the library: bit 0 is nvmlInit_v2.
  enum Call : unsigned {
    init = 1,
    device = 2,
    utilisation = 4,
    memory = 8,
    fields = 16,
    none = 0,
  };
  std::atomic<unsigned> failing{none};
  /// Returns success with values that no GPU has.
  std::atomic<bool> talks_nonsense{false};
  /// Each counter has an invalid type or state.
  std::atomic<bool> has_no_counters{false};
  /// PCIe counters have 32 bits.
  std::atomic<bool> counts_pcie_narrowly{false};
  /// The process exits with 97 if the library's statics are destroyed before it was closed.
  std::atomic<bool> must_be_closed_at_exit{false};
  /// A call of `utilisation` does not return.
  std::atomic<bool> hangs{false};
  std::atomic<unsigned> kernels_percent{0}, memory_percent{0};
  std::atomic<std::uint64_t> used_bytes{0}, total_bytes{1};
  /// NVLink sent and received in KiB, PCIe sent and received in bytes.
  std::array<std::atomic<std::uint64_t>, 4> counters{};
  std::atomic<int> opened{0}, closed{0}, samples{0};
};

}  // namespace vma
