#include "sim/device_view.hpp"

#include "sim/backing_store.hpp"
#include "sim/device_fault.hpp"

#include <algorithm>

namespace vma {

void SimDeviceView::read(const void* address, std::span<std::byte> out) {
  const Address begin = address_of(address);
  for (std::uint64_t done = 0; done < out.size();) {
    const Segment segment = memory_.touch(device_, begin + done, false);
    const std::uint64_t size = std::min<std::uint64_t>(segment.size_bytes, out.size() - done);
    place_.touches(segment, size, Touch::read);
    copy_device_bytes(out.data() + done, segment.bytes, size);
    done += size;
  }
}

void SimDeviceView::write(void* address, std::span<const std::byte> bytes) {
  const Address begin = address_of(address);
  for (std::uint64_t done = 0; done < bytes.size();) {
    const Segment segment = memory_.touch(device_, begin + done, true);
    const std::uint64_t size = std::min<std::uint64_t>(segment.size_bytes, bytes.size() - done);
    place_.touches(segment, size, Touch::write);
    copy_device_bytes(segment.bytes, bytes.data() + done, size);
    done += size;
  }
}

std::uint64_t SimDeviceView::atomic_add(std::uint64_t* address, std::uint64_t value) {
  const Address at = address_of(address);
  if (to_integer(at) % sizeof value != 0) {
    throw DeviceFault::illegal_address(device_, at, "an atomic operation needs an aligned word");
  }
  const Segment segment = memory_.touch(device_, at, true);
  place_.touches(segment, sizeof value, Touch::atomic);
  return __atomic_fetch_add(reinterpret_cast<std::uint64_t*>(segment.bytes), value,
                            __ATOMIC_ACQ_REL);
}

}  // namespace vma
