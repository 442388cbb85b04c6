#pragma once

#include "lab/replay/replay.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vma {

// Values that people give for a replay, on a command line or in an experiment's file.

std::string_view to_string(Pacing pacing) noexcept;
/// Throws: Error{invalid_argument} that lists the names.
Pacing parse_pacing(const std::string& name);

/// Bytes of `amount` units. Throws: Error{invalid_argument} that names `what` if there are less
/// than one or more than 10^18.
std::uint64_t bytes_of(double amount, double unit, std::string_view what);

/// A time in milliseconds. Throws: Error{invalid_argument} of `call` that names `option` if it is
/// not from `least` to `most`.
Time milliseconds_of(double amount, double least, double most, std::string_view option,
                     std::string_view call);

/// Capacities that override the machine's, in GiB, for each GPU and for each host node. Throws as
/// `bytes_of`.
struct PlaceCaps {
  std::optional<double> hbm_gib, host_gib;
};
void cap_places(ReplayMachine& machine, const PlaceCaps& caps);

}  // namespace vma
