#include "sim/work_runner.hpp"

#include "base/units.hpp"
#include "sim/sim_memory.hpp"
#include "sim/device_view.hpp"

#include <algorithm>
#include <exception>
#include <optional>

namespace vma {
namespace {

constexpr std::uint64_t pieces_stepped = 4;  // Of one copy, so that other threads run in between.
constexpr std::uint64_t piece_bytes_threaded = 16 * MiB;
constexpr std::uint64_t piece_bytes_min = 64;

std::uint64_t piece_of(std::uint64_t size_bytes, const SimClock& clock) {
  if (clock.stepped() == nullptr) return piece_bytes_threaded;
  return std::max(round_up(size_bytes / pieces_stepped, 8), piece_bytes_min);
}

}  // namespace

/// In stepped mode the stream's thread waits until that time, which passes only while the work is
/// not suspended; in threaded mode it does not wait. Returns when that was.
TimePoint WorkRunner::pass_until(TimePoint time, WorkPlace& place) {
  if (clock_.stepped() == nullptr) return time;
  for (TimePoint before = place.suspended_time();;) {
    clock_.sleep_until(time);
    { const WorkAccess none(place); }
    const TimePoint suspended = place.suspended_time() - before;
    if (suspended == TimePoint(0)) return time;
    time += suspended;
    before += suspended;
  }
}

TimePoint WorkRunner::run(const Work& work, DeviceId device, TimePoint start, WorkPlace& place) {
  const int ordinal = index(device);
  if (const auto* copied = std::get_if<CopyWork>(&work))
    return copy(*copied, ordinal, start, place);
  if (const auto* filled = std::get_if<FillWork>(&work))
    return fill(*filled, ordinal, start, place);
  if (const auto* launched = std::get_if<KernelWork>(&work))
    return kernel(*launched, ordinal, start, place);
  if (const auto* batched = std::get_if<BatchWork>(&work))
    return batch(*batched, ordinal, start, place);
  if (const auto* graph = std::get_if<GraphWork>(&work)) {
    for (const Work& node : graph->nodes->works) start = run(node, device, start, place);
  }
  return start;
}

TimePoint WorkRunner::copy(const CopyWork& work, int device, TimePoint start, WorkPlace& place) {
  const std::uint64_t piece = piece_of(work.size_bytes, clock_);
  TimePoint end = start + from_microseconds(costs_.parameters().copy_latency_us);
  for (std::uint64_t done = 0; done < work.size_bytes;) {
    const std::uint64_t left = std::min(work.size_bytes - done, piece);
    SimSegment source, target;
    std::uint64_t size = 0;
    const auto look_up = [&] {
      source = memory_.touch_or_host(device, work.source + done, left, false);
      target = memory_.touch_or_host(device, work.target + done, left, true);
      size = std::min({left, source.size_bytes, target.size_bytes});
    };
    const TimePoint before = place.suspended_time();
    {
      const WorkAccess access(place);
      look_up();
    }
    end = pass_until(routes_.occupy(source.at, target.at, size, end).end, place);
    const WorkAccess access(place);
    if (place.suspended_time() != before) look_up();  // Other memory may be there now.
    place.touches(source, size, Touch::read);
    place.touches(target, size, Touch::write);
    copy_device_bytes(target.bytes, source.bytes, size);
    done += size;
  }
  return end;
}

TimePoint WorkRunner::fill(const FillWork& work, int device, TimePoint start, WorkPlace& place) {
  const std::uint64_t piece = piece_of(work.size_bytes, clock_);
  TimePoint end = start;
  for (std::uint64_t done = 0; done < work.size_bytes;) {
    const std::uint64_t left = std::min(work.size_bytes - done, piece);
    SimSegment target;
    const auto look_up = [&] {
      target = memory_.touch_or_host(device, work.begin + done, left, true);
    };
    const TimePoint before = place.suspended_time();
    {
      const WorkAccess access(place);
      look_up();
    }
    const Place at = target.at;
    std::uint64_t size = std::min(left, target.size_bytes);
    end = pass_until(routes_.occupy(gpu(device), at, size, end).end, place);
    const WorkAccess access(place);
    if (place.suspended_time() != before) {
      look_up();
      size = std::min(left, target.size_bytes);
    }
    place.touches(target, size, Touch::write);
    fill_device_bytes(target.bytes, work.value, size);
    done += size;
  }
  return end;
}

TimePoint WorkRunner::spin(TimePoint end, WorkPlace& place) {
  end = pass_until(end, place);
  return clock_.stepped() != nullptr ? clock_.now() : end;
}

TimePoint WorkRunner::kernel(const KernelWork& work, int device, TimePoint start,
                             WorkPlace& place) {
  const Kernel& kernel = work.kernel->kernel;
  if (is_spin(kernel.entry) && !work.arguments.words().empty()) {
    return spin(start + TimePoint(static_cast<TimePoint::rep>(work.arguments.words()[0])), place);
  }
  KernelTime time(routes_, clock_, costs_, place, device, start);
  time.before_first_touch();
  if (kernel.host_body) {
    SimDeviceView view(memory_, device, place, time, reads_live(kernel.entry));
    try {
      kernel.host_body(view, work.arguments, work.shape);
    } catch (const DeviceFault&) {
      throw;
    } catch (const std::exception& error) {
      throw DeviceFault(native_launch_failed, kernel.entry + ": " + error.what());
    } catch (...) {
      throw DeviceFault(native_launch_failed, kernel.entry + ": threw something");
    }
  }
  return time.end();
}

TimePoint WorkRunner::batch(const BatchWork& work, int device, TimePoint start, WorkPlace& place) {
  TimePoint end = start;
  for (const WordOperation& operation : work.operations) {
    const bool write = operation.kind == WordOperation::Kind::write;
    std::optional<WorkAccess> access(place);
    const SimSegment segment = memory_.touch(device, operation.word, write);
    auto* word = reinterpret_cast<std::uint64_t*>(segment.bytes);
    if (write) {
      // The clock reaches the time of the write before any thread can see the word.
      clock_.reached(end);
      place.wrote_word();
      __atomic_store_n(word, operation.value, __ATOMIC_RELEASE);
      continue;
    }
    access.reset();
    const bool stopped = __atomic_load_n(word, __ATOMIC_ACQUIRE) < operation.value;
    if (!place.wait_word(word, operation.value)) break;
    if (stopped) end = std::max(end, clock_.now());
  }
  return end;
}

}  // namespace vma
