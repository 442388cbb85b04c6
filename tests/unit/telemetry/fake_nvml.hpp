#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace vma {

/// What the test's own NVML answers; the library exports one as `fake_nvml`. Any thread.
struct FakeNvml {
  /// The calls that fail, by their place in the library: bit 0 is nvmlInit_v2.
  enum Call : unsigned {
    init = 1,
    device = 2,
    utilisation = 4,
    memory = 8,
    fields = 16,
    none = 0,
  };
  std::atomic<unsigned> failing{none};
  /// Answers with success and values that no GPU has.
  std::atomic<bool> talks_nonsense{false};
  /// Each counter is of a type or a state that is none.
  std::atomic<bool> has_no_counters{false};
  /// PCIe is counted in 32 bits.
  std::atomic<bool> counts_pcie_narrowly{false};
  /// The process ends with 97 where the library's statics go before it was closed.
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
