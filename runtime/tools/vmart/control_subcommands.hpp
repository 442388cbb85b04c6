#pragma once

#include "tools/vmart/control_client.hpp"

#include <functional>

namespace CLI {
class App;
}

namespace vma {

/// Adds `--pid` and `--socket`.
void add_choice(CLI::App& command, ControlChoice& choice);

/// Adds the subcommands that query a running program. Parsing one of them sets `chosen` to the
/// function to run; otherwise `chosen` is unchanged.
void add_control_subcommands(CLI::App& app, std::function<int()>& chosen);

}  // namespace vma
