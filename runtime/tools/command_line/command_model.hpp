#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace vma {

/// An option or an argument by its position.
struct ArgumentModel {
  std::vector<std::string> names;    ///< "-h" and "--help"; of an argument, its name in capitals.
  std::string value;                 ///< Such as "SIZE"; empty: it takes none.
  std::vector<std::string> choices;  ///< All values that it takes; empty: others, too.
  std::string meaning;               ///< With range and default.
  bool required = false, many = false;
};

/// What a command line says of a command: the source of the help, of completion and of the manual.
struct CommandModel {
  std::string path;  ///< "vmart machine show".
  std::string name, group, meaning, usage;
  std::vector<ArgumentModel> arguments, options;
  std::vector<CommandModel> commands;
  std::string footer;
  bool runs_program = false;  ///< The rest of the line is another program's.
};

/// Of a command of CLI11 and of all below it. `path` is the name with those above it.
CommandModel model_of(const CLI::App& app, const std::string& path);

/// What --help prints: at most 80 columns wide, unless a word is longer.
std::string help_text(const CommandModel& command);
/// A page of the manual in section 1, for man(1).
std::string manual_page(const CommandModel& program, const std::string& version);
/// A script that completes the command line in "bash", "zsh" or "fish".
std::string completion_script(const CommandModel& program, const std::string& shell);

}  // namespace vma
