#pragma once

#include "tools/vmart/control_client.hpp"

namespace vma {

/// What the places of `vmart top` are sorted by. Descending, except by name.
enum class TopSort { place, used, share, demand };

struct TopOptions {
  double interval_s = 1;
  TopSort sort = TopSort::place;
  bool json = false;
};

/// Draws what a runtime does, again and again until `q` is pressed, in what the terminal has room
/// for; once where the output is no terminal, or as JSON. Returns 0. Throws: as ControlClient.
int run_top(const ControlChoice& choice, const TopOptions& options);

}  // namespace vma
