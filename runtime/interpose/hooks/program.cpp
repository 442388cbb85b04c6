#include "interpose/hooks/program.hpp"

#include "base/process_exit.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <optional>

namespace vma::interpose {

Program& program() noexcept {
  return only<Program>();
}

void note_error(CUresult error) noexcept {
  program().refusals.note_error(error);
}

std::uint64_t Program::bytes_of(int device) noexcept {
  return memory.bytes_of(device) + pools.bytes_of(device) + mappings.bytes_of(device);
}

/// All that vmart holds is the program's, so nobody has to ask where each allocation lies.
long long Program::hidden_bytes(int device) noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  std::uint64_t held = 0;
  if (vmart == nullptr || vmart->vmart_held_bytes({VMART_GPU, device}, &held) != VMART_OK) return 0;
  return static_cast<long long>(held) - static_cast<long long>(bytes_of(device));
}

void Program::limit_memory_info(int device, std::size_t& free_bytes,
                                std::size_t& total_bytes) noexcept {
  const std::optional<std::uint64_t> capacity = limits.told_capacity(device);
  if (!capacity || *capacity >= total_bytes) return;
  const std::uint64_t used = bytes_of(device);
  total_bytes = *capacity;
  free_bytes = std::min<std::uint64_t>(free_bytes, *capacity - std::min(used, *capacity));
}

}  // namespace vma::interpose
