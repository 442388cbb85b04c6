#include "interpose/limits.hpp"

#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

namespace vma::interpose {

/// Whether the runtime is open or can be opened. A program may ask for its limit before it
/// allocates, so this may be the first try, and the last one if it fails.
bool Limits::can_open(const RunTable& vmart) const noexcept {
  if (streams_.begun()) return true;
  if (!takes_part()) return false;
  std::uint64_t ignored = 0;
  if (vmart.vmart_capacity({VMART_HOST, 0}, &ignored) == VMART_OK) return true;
  disable(vmart.vmart_last_error());
  return false;
}

/// None without a limit. It may change at any time. Loads vmart if a limit was set for the program,
/// which may ask before it allocates.
std::optional<std::uint64_t> Limits::capacity_of(int device) const noexcept {
  const bool load = Settings::get().capacity_is_set && takes_part();
  const RunTable* const vmart = load ? VmartLibrary::load() : VmartLibrary::loaded();
  std::uint64_t bytes = UINT64_MAX;
  if (vmart == nullptr || !can_open(*vmart) ||
      vmart->vmart_capacity({VMART_GPU, device}, &bytes) != VMART_OK) {
    return std::nullopt;
  }
  return bytes == UINT64_MAX ? std::nullopt : std::optional(bytes);
}

bool Limits::spills(int device) const noexcept {
  return Settings::get().overcommit || capacity_of(device).has_value();
}

std::optional<std::uint64_t> Limits::told_capacity(int device) const noexcept {
  return Settings::get().overcommit ? std::nullopt : capacity_of(device);
}

}  // namespace vma::interpose
