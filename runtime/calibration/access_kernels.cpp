#include "calibration/access_kernels.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {
namespace {

constexpr const char* ptx =
#include "calibration/kernels/access.ptx.inc"
    ;

constexpr std::uint64_t piece_bytes = 256 * KiB;

void read_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  const auto* data = arguments.at<const std::byte*>(0);
  const std::uint64_t size_bytes = arguments.at<std::uint64_t>(1) * access_vector_bytes;
  const auto passes = arguments.at<std::uint64_t>(2);
  std::vector<std::byte> piece(piece_bytes);
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (std::uint64_t done = 0; done < size_bytes; done += piece_bytes) {
      memory.read(data + done, std::span(piece).first(std::min(piece_bytes, size_bytes - done)));
    }
  }
}

void chase_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  const auto* data = arguments.at<const std::uint64_t*>(0);
  const auto steps = arguments.at<std::uint64_t>(1);
  std::uint64_t at = 0;
  for (std::uint64_t step = 0; step < steps; ++step) at = memory.load(data + at);
}

}  // namespace

const Kernel& access_read_kernel() {
  // Never destroyed, because runtime threads may load it while the process exits. The same applies
  // to the kernels below.
  static const Kernel& kernel = *new Kernel{ptx, "vmart_access_read", read_body};
  return kernel;
}

unsigned read_blocks(int multiprocessors) {
  constexpr unsigned blocks_a_multiprocessor = 4;
  return static_cast<unsigned>(multiprocessors) * blocks_a_multiprocessor;
}

const Kernel& access_chase_kernel() {
  static const Kernel& kernel = *new Kernel{ptx, "vmart_access_chase", chase_body};
  return kernel;
}

}  // namespace vma
