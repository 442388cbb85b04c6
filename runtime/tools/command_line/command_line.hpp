#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace vma {

/// A line at the end of a command's help, which also ends what is said of its wrong usage.
void add_example(CLI::App& command, const std::string& text);

/// What `app.parse` does, with help of at most 80 columns and with messages that say what to type
/// instead. `--version`, `completion SHELL` and `man` are added.
///
/// Returns the exit status if the program has nothing else to do: 0 after help and the like, 2 for
/// wrong usage. Call it last, when `app` is complete.
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv);

/// A message of the library without its internal names: "vma::control: invalid_argument: ..." is
/// only what follows. Places are written as a shell takes them.
std::string plain_message(const std::string& message);

}  // namespace vma
