#include "migrate/stops/beating_kernel.hpp"

namespace vma {
namespace {

constexpr const char* beat_ptx =
#include "migrate/stops/kernels/beat.ptx.inc"
    ;

constexpr std::uint64_t beat_image[] = {
#include "migrate/stops/kernels/beat.image.inc"
};

void beat(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  auto* const beats = arguments.at<std::uint64_t*>(0);
  std::uint64_t count = memory.load(beats);
  do {
    memory.store(beats, ++count);
  } while (memory.load(arguments.at<const std::uint64_t*>(1)) == 0);
}

}  // namespace

const Kernel& beating_kernel() {
  static const Kernel kernel{beat_ptx, "vmart_beat_until", beat};
  return kernel;
}

std::span<const std::uint64_t> beating_image() {
  return beat_image;
}

}  // namespace vma
