#pragma once

#include "control/control_target.hpp"

#include <string>

namespace vma {

/// The counters in Prometheus's text format: families `vmart_*` with HELP and TYPE, in base units
/// (seconds, bytes); the names of counters end in `_total`. `docs/guide/control.md` lists them.
std::string prometheus_text(const ControlStats& stats);

}  // namespace vma
