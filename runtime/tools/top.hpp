#pragma once

#include "tools/control_client.hpp"

namespace vma {

/// Shows a runtime's places, moves and latest events, again and again until `q` or the end of
/// standard input; once where standard output is no terminal. Returns 0. Throws: as ControlClient.
int run_top(const ControlChoice& choice, double interval_s);

}  // namespace vma
