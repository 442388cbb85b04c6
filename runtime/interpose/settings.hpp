#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vma::interpose {

/// What `vmart run` and its user have set; docs/reference/environment.md has the variables. The
/// library that is preloaded cannot use that of vmart, so it reads them itself.
struct Settings {
  bool on = true;
  std::size_t min_bytes = std::size_t{2} << 20;
  std::string excluded;  ///< Names of libraries, divided by commas.
  bool children = true;
  bool pools = false;            ///< Whether stream-ordered allocations can move.
  bool vmm = false;              ///< Whether memory that the program maps itself can be vmart's.
  std::size_t site_bytes = 0;    ///< Allocations from this size on remember their site; 0: none.
  bool capacity_is_set = false;  ///< VMART_CAPACITY limits what the program has at some place.
  bool overcommit = false;       ///< Memory for which there is no room spills to other places.
  std::string driver;            ///< VMART_DRIVER; empty: the program's.
  std::string run_version;       ///< What `vmart run` is; empty: it was not started by that.
  /// A policy, a recording or a decision log reads what the program uses.
  bool uses_are_read = false;

  /// Read once, at the first call.
  static const Settings& get() noexcept;
};

/// Whether vmart takes part in this process. Once it does not, all new memory is the driver's, for
/// good; memory that vmart already has keeps working.
bool takes_part() noexcept;

/// From now on, vmart takes no part. Prints one line with the reason, the first time, unless it is
/// null.
void disable(const char* why) noexcept;

/// Whether `caller`, a return address, lies in a library or program whose name contains one of the
/// excluded names.
bool is_excluded(const void* caller) noexcept;

}  // namespace vma::interpose
