#pragma once

#include "tools/control_client.hpp"

#include <string>

namespace vma {

/// Prints a runtime's allocations, or where the bytes of the one at `address` lie. Returns 0.
/// Throws: as ControlClient.
int run_live_where(const ControlChoice& choice, const std::string& address);

}  // namespace vma
