#pragma once

#include "tools/vmart/control_client.hpp"

#include <functional>

namespace CLI {
class App;
}

namespace vma {

/// `--pid` and `--socket`.
void add_choice(CLI::App& command, ControlChoice& choice);

/// The subcommands that ask a running program. `chosen` is what shall be run after parsing; it
/// stays as it is where another subcommand was given.
void add_control_subcommands(CLI::App& app, std::function<int()>& chosen);

}  // namespace vma
