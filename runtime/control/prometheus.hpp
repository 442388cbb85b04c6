#pragma once

#include "control/control_target.hpp"

#include <string>

namespace vma {

/// The counters in Prometheus's text format: families `vmart_*` with HELP and TYPE, in base units
/// (seconds, bytes). Their names are those of <vma/counters.hpp>, with a unit that these do not
/// say, and `_total` for what only grows.
std::string prometheus_text(const ControlStats& stats);

}  // namespace vma
