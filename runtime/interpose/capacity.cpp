#include "interpose/capacity.hpp"

#include "interpose/program_memory.hpp"
#include "interpose/settings.hpp"
#include "interpose/standing.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>

namespace vma::interpose {

std::optional<std::uint64_t> capacity_of(int device) noexcept {
  const bool load = Settings::get().capacity_is_set && takes_part();
  const VmartLibrary* const vmart = load ? VmartLibrary::load() : VmartLibrary::loaded();
  std::uint64_t bytes = UINT64_MAX;
  if (vmart == nullptr || vmart->vmart_capacity({VMART_GPU, device}, &bytes) != VMART_OK) {
    return std::nullopt;
  }
  return bytes == UINT64_MAX ? std::nullopt : std::optional(bytes);
}

bool spills(int device) noexcept {
  return Settings::get().overcommit || capacity_of(device).has_value();
}

void limit_memory_info(int device, std::size_t& free_bytes, std::size_t& total_bytes) noexcept {
  if (Settings::get().overcommit) return;
  const std::optional<std::uint64_t> capacity = capacity_of(device);
  if (!capacity || *capacity >= total_bytes) return;
  const std::uint64_t used = ProgramMemory::get().bytes_of(device);
  total_bytes = *capacity;
  free_bytes = std::min<std::uint64_t>(free_bytes, *capacity - std::min(used, *capacity));
}

}  // namespace vma::interpose
