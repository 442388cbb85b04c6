#include "sim/device_view.hpp"

#include "sim/backing_store.hpp"
#include "sim/device_fault.hpp"

#include <algorithm>

namespace vma {

void SimDeviceView::read(const void* address, std::span<std::byte> out) {
  const Address begin = address_of(address);
  for (std::uint64_t done = 0; done < out.size();) {
    time_.before_touch();
    const WorkAccess access(place_);
    const SimSegment segment = memory_.touch(device_, begin + done, false);
    const std::uint64_t size = std::min<std::uint64_t>(segment.size_bytes, out.size() - done);
    copy_device_bytes(out.data() + done, segment.bytes, size);
    if (!live_reads_) place_.touches(segment, size, Touch::read);
    time_.touched(segment.at, size, false);
    done += size;
  }
}

void SimDeviceView::write(void* address, std::span<const std::byte> bytes) {
  const Address begin = address_of(address);
  for (std::uint64_t done = 0; done < bytes.size();) {
    time_.before_touch();
    const WorkAccess access(place_);
    const SimSegment segment = memory_.touch(device_, begin + done, true);
    const std::uint64_t size = std::min<std::uint64_t>(segment.size_bytes, bytes.size() - done);
    copy_device_bytes(segment.bytes, bytes.data() + done, size);
    place_.touches(segment, size, Touch::write);
    time_.touched(segment.at, size, true);
    done += size;
  }
}

std::uint64_t SimDeviceView::atomic_add(std::uint64_t* address, std::uint64_t value) {
  const Address at = address_of(address);
  if (to_integer(at) % sizeof value != 0) {
    throw DeviceFault::illegal_address(device_, at, "an atomic operation needs an aligned word");
  }
  time_.before_touch();
  const WorkAccess access(place_);
  const SimSegment segment = memory_.touch(device_, at, true);
  auto* word = reinterpret_cast<std::uint64_t*>(segment.bytes);
  const std::uint64_t before = __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
  place_.touches(segment, sizeof value, Touch::atomic);
  time_.touched(segment.at, sizeof value, true);
  return before;
}

}  // namespace vma
