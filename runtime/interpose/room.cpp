#include "interpose/room.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/program_streams.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <array>

namespace vma::interpose {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
// Page tables and size classes of the driver need more than the program asks for.
constexpr std::array<std::uint64_t, 3> extra_bytes = {0, 32 * mib, 256 * mib};
// For what is not known. What fails with so much free memory fails for another reason.
constexpr std::array<std::uint64_t, 6> unknown_bytes = {32 * mib,  64 * mib,  128 * mib,
                                                        256 * mib, 512 * mib, 1024 * mib};

}  // namespace

bool RoomMaker::make() noexcept {
  if (VmartLibrary::loaded() == nullptr) return false;
  const bool first = !asked_;
  if (first) {
    asked_ = true;
    device_ = device_of(need_);
  }
  if (device_ < 0) return false;
  const std::optional<Memory> memory = memory_of(device_);
  if (!memory || need_.bytes > memory->total_bytes) return false;
  if (first && release_cached()) return true;
  return limits_.spills(device_) && evict(*memory);
}

bool RoomMaker::release_cached() noexcept {
  std::uint64_t given = 0;
  pools_.make_room(device_);
  return VmartLibrary::loaded()->vmart_trim({VMART_GPU, device_}, &given) == VMART_OK && given > 0;
}

/// Evicts until as much is free as the call may need. If so much is free already, it needs more.
bool RoomMaker::evict(const Memory& memory) noexcept {
  for (; const auto wanted = wanted_bytes(); ++step_) {
    const std::uint64_t target = std::min(*wanted, memory.total_bytes);
    if (memory.free_bytes >= target) continue;
    std::uint64_t given = 0;
    return VmartLibrary::loaded()->vmart_make_room({VMART_GPU, device_}, target - memory.free_bytes,
                                                   &given) == VMART_OK &&
           given > 0;
  }
  return false;
}

std::optional<std::uint64_t> RoomMaker::wanted_bytes() const noexcept {
  if (need_.bytes == 0) {
    return step_ < unknown_bytes.size() ? std::optional(unknown_bytes[step_]) : std::nullopt;
  }
  if (step_ >= extra_bytes.size()) return std::nullopt;
  // If the need alone was not enough, an eighth more.
  const std::uint64_t part = step_ == 0 ? 0 : need_.bytes / 8;
  return need_.bytes + part + extra_bytes[step_];
}

int RoomMaker::device_of(const RoomNeed& need) const noexcept {
  if (need.device) return *need.device;
  if (const auto of_pool = pools_.device_of(need.pool)) return *of_pool;
  if (const auto of_stream = ProgramStreams::device_of(need.stream)) return *of_stream;
  CUcontext context = nullptr;
  int device = 0;
  return ProgramStreams::current(context, device) ? device : RoomNeed::nowhere;
}

std::optional<RoomMaker::Memory> RoomMaker::memory_of(int device) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  const auto ask = [] {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    const CUresult result = call_driver<EntryPoint::cuMemGetInfo_v2>(&free_bytes, &total_bytes);
    return result == CUDA_SUCCESS ? std::optional(Memory{free_bytes, total_bytes}) : std::nullopt;
  };
  CUcontext context = nullptr;
  int current = 0;
  if (driver == nullptr) return std::nullopt;
  if (ProgramStreams::current(context, current) && current == device) return ask();
  const CUcontext primary = primary_context(*driver, device);
  if (primary == nullptr) return std::nullopt;
  const PushedContext pushed(*driver, primary);
  return pushed ? ask() : std::nullopt;
}

}  // namespace vma::interpose
