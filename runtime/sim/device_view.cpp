#include "sim/device_view.hpp"

#include "base/units.hpp"
#include "sim/backing_store.hpp"
#include "sim/sim_memory.hpp"
#include "sim/sim_clock.hpp"

#include <algorithm>

namespace vma {
namespace {

/// Bytes of one place that occupy the route in one go; each request costs the simulator a lock.
constexpr std::uint64_t turn_bytes = 256 * KiB;
/// One touch in this many lets other threads run.
constexpr std::uint64_t touches_per_switch = 4;

}  // namespace

KernelTime::KernelTime(SimRoutes& routes, SimClock& clock, const CostModel& costs,
                       const WorkPlace& place, int device, TimePoint start)
    : routes_(routes),
      clock_(clock),
      costs_(costs),
      place_(place),
      device_(gpu(device)),
      start_(start),
      suspended_before_(place.suspended_time()),
      rest_ns_(costs.parameters().kernel_us * 1e3) {}

TimePoint KernelTime::at() const {
  return start_ + TimePoint(static_cast<TimePoint::rep>(ns_)) + place_.suspended_time() -
         suspended_before_;
}

/// Stepped mode only. Lets time pass: all of it for the bytes touched so far, and a random part of
/// the remaining fixed time, at most `part_max`.
void KernelTime::live_through(double part_max) {
  for (FarBytes& far : far_) pay(far);
  const double part_ns =
      rest_ns_ * part_max * static_cast<double>(clock_.stepped()->random() % 5) / 4;
  ns_ += part_ns;
  rest_ns_ -= part_ns;
  if (at() > clock_.now()) {
    clock_.sleep_until(at());
  } else {
    clock_.stepped()->give_way();
  }
}

void KernelTime::before_first_touch() {
  if (clock_.stepped() != nullptr) live_through(0.5);
}

void KernelTime::before_touch() {
  SteppedThreads* stepped = clock_.stepped();
  if (stepped != nullptr && stepped->random() % touches_per_switch == 0) live_through(0.25);
}

void KernelTime::touched(Place at, std::uint64_t size_bytes, bool write) {
  if (at == device_) {
    const double copy_gb_s = costs_.bandwidth(at, at);
    if (copy_gb_s > 0) ns_ += static_cast<double>(size_bytes) / (2 * copy_gb_s);
    return;
  }
  auto far = std::find_if(far_.begin(), far_.end(),
                          [&](const FarBytes& it) { return it.at == at && it.write == write; });
  if (far == far_.end()) far = far_.insert(far_.end(), {at, write, 0});
  far->size_bytes += size_bytes;
  if (far->size_bytes >= turn_bytes) pay(*far);
}

void KernelTime::pay(FarBytes& far) {
  if (far.size_bytes == 0) return;
  const Place from = far.write ? device_ : far.at;
  const Place to = far.write ? far.at : device_;
  const TimePoint begin = at();
  const TimePoint paid = routes_.occupy(from, to, far.size_bytes, begin).end;
  ns_ += static_cast<double>((paid - begin).count());
  far.size_bytes = 0;
}

TimePoint KernelTime::end() {
  for (FarBytes& far : far_) pay(far);
  ns_ += rest_ns_;
  if (clock_.stepped() == nullptr) return at();
  while (at() > clock_.now()) clock_.sleep_until(at());
  return clock_.now();
}

// --- Memory

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
