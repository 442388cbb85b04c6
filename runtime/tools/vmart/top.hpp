#pragma once

#include "tools/vmart/control_client.hpp"

#include <string>

namespace vma {

/// Sort key of the places of `vmart top`. Descending, except by name.
enum class TopSort { place, used, share, demand };
/// "place", "used", "share" or "demand".
TopSort top_sort_of(const std::string& name);

struct TopOptions {
  double interval_s = 1;
  TopSort sort = TopSort::place;
  bool json = false;
};

/// Shows the state of the chosen runtime, or of the only one; if there are several, one row of
/// each. Does so until `q` is pressed, fitted to the terminal. Shows it
/// only once if the output is not a terminal, or as JSON. Returns 0. Throws: like ControlClient.
int run_top(const ControlChoice& choice, const TopOptions& options);

}  // namespace vma
