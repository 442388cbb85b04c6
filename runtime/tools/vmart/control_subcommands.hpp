#pragma once

#include "tools/vmart/control_client.hpp"

#include <functional>

namespace CLI {
class App;
}

namespace vma {

/// `--pid` and `--socket`.
void add_choice(CLI::App& command, ControlChoice& choice);

/// The subcommands that query a running program. `chosen` is what to run after parsing; it is
/// unchanged if another subcommand was given.
void add_control_subcommands(CLI::App& app, std::function<int()>& chosen);

}  // namespace vma
