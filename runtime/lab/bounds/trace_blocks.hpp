#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// Divides a trace into blocks, given how late its accesses may begin. A device begins its accesses
/// in order, and at most `late_max` of them wait: an access has certainly begun when that many more
/// have arrived. A block ends when all accesses from before it have begun, or when a rarely used
/// device has delayed it for too long.
class TraceBlocks {
 public:
  TraceBlocks(std::size_t devices, std::size_t late_max);

  /// The device's next access has arrived.
  void came(std::size_t device);
  /// The block of accesses that arrive now.
  std::uint32_t now() const noexcept {
    return static_cast<std::uint32_t>(stretches_ / block_stretches_);
  }
  /// Doubles the length of blocks; merges pairs of earlier ones.
  void halve() { block_stretches_ *= 2; }

 private:
  struct Device {
    std::uint64_t came = 0, before = 0;  // Number of accesses; of those before this stretch.
    bool awaited = false;
  };
  void begin_stretch();

  const std::size_t late_max_;
  const std::uint64_t stretch_max_;
  std::vector<Device> devices_;
  std::size_t missing_ = 0;       // Devices that this stretch waits for.
  std::uint64_t in_stretch_ = 0;  // Number of accesses.
  std::uint64_t stretches_ = 0, block_stretches_ = 1;
};

}  // namespace vma
