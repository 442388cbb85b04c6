#include "tools/command_line/command_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace vma {
namespace {

/// Within single quotes of all three shells.
std::string shell_quoted(std::string_view text) {
  std::string written = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      written += "'\\''";
    } else {
      written += letter;
    }
  }
  return written + "'";
}

/// What an argument may be, by its name; empty if files or anything else may follow.
std::vector<std::string> words_of(const ArgumentModel& argument) {
  if (!argument.choices.empty()) return argument.choices;
  constexpr std::string_view place = "PLACE";
  const bool places = argument.names[0] == place || argument.value.ends_with(place);
  if (!places) return {};
  std::vector<std::string> words{"host0"};
  for (int gpu = 0; gpu < 8; ++gpu) words.push_back(fmt::format("gpu{}", gpu));
  if (argument.names[0] == place) return words;
  words.insert(words.end(), {"all", "largest:", "at:gpu0", "tag:"});
  return words;
}

std::vector<std::string> names_of(const std::vector<CommandModel>& commands) {
  std::vector<std::string> names;
  for (const CommandModel& command : commands) names.push_back(command.name);
  return names;
}

/// All words that may follow the command.
std::vector<std::string> words_after(const CommandModel& command) {
  std::vector<std::string> words = names_of(command.commands);
  for (const ArgumentModel& option : command.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  for (const ArgumentModel& argument : command.arguments) {
    const std::vector<std::string> these = words_of(argument);
    words.insert(words.end(), these.begin(), these.end());
  }
  return words;
}

/// Each command below with its path behind the program's name: "machine show".
template <typename Body>
void for_all(const CommandModel& command, const Body& body) {
  for (const CommandModel& below : command.commands) {
    body(below, below.path.substr(below.path.find(' ') + 1));
    for_all(below, body);
  }
}

/// "-" cannot be in the name of a function of every shell.
std::string function_of(std::string name) {
  std::ranges::replace(name, '-', '_');
  return "_" + name;
}

std::string for_bash(const CommandModel& program) {
  std::string cases, values;
  for_all(program, [&](const CommandModel& command, const std::string& path) {
    cases += fmt::format("    {}) words={} ;;\n", shell_quoted(path),
                         shell_quoted(fmt::format("{}", fmt::join(words_after(command), " "))));
    for (const ArgumentModel& option : command.options) {
      if (option.choices.empty()) continue;
      values += fmt::format("    {}) words={} ;;\n", shell_quoted(path + " " + option.names.back()),
                            shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
    }
  });
  return fmt::format(R"(# bash completion of {0}
{1}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path='' words='' i
  local commands={2}
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      --)  # What follows is another program's command line.
        if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi
        return ;;
      -*) continue ;;
    esac
    case " $commands " in
      *" ${{path:+$path/}}${{COMP_WORDS[i]}} "*) path=${{path:+$path/}}${{COMP_WORDS[i]}} ;;
    esac
  done
  path=${{path//\// }}
  case $path in
    '') words={3} ;;
{4}  esac
  case "$path $before" in
    *' ') ;;
{5}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F {1} {0}
)",
                     program.name, function_of(program.name),
                     [&] {
                       std::string paths;
                       for_all(program, [&](const CommandModel&, std::string path) {
                         std::ranges::replace(path, ' ', '/');
                         paths += (paths.empty() ? "" : " ") + path;
                       });
                       return shell_quoted(paths);
                     }(),
                     shell_quoted(fmt::format("{}", fmt::join(words_after(program), " "))), cases,
                     values);
}

/// A word of an option specification of `_arguments`: brackets and colons would end it.
std::string zsh_word(std::string_view text) {
  std::string written;
  for (const char letter : text) {
    if (letter == ':' || letter == '[' || letter == ']') written += '\\';
    written += letter;
  }
  return written;
}

std::string zsh_arguments(const CommandModel& command) {
  std::string text;
  for (const ArgumentModel& option : command.options) {
    for (const std::string& name : option.names) {
      const std::string value =
          option.value.empty() ? ""
          : option.choices.empty()
              ? fmt::format(":{}:_files", zsh_word(option.value))
              : fmt::format(":{}:({})", zsh_word(name), fmt::join(option.choices, " "));
      text += " \\\n        " +
              shell_quoted(fmt::format("{}[{}]{}", name, zsh_word(option.meaning), value));
    }
  }
  for (const ArgumentModel& argument : command.arguments) {
    const std::vector<std::string> words = words_of(argument);
    const std::string action =
        words.empty() ? "_files"
                      : fmt::format("({})", zsh_word(fmt::format("{}", fmt::join(words, " "))));
    text += " \\\n        " + shell_quoted(fmt::format("{}:{}:{}", argument.many ? "*" : "",
                                                       zsh_word(argument.names[0]), action));
  }
  if (command.runs_program) text += " \\\n        '*::program:_normal'";
  return text;
}

std::string zsh_function(const CommandModel& command, const std::string& function) {
  std::string text;
  for (const CommandModel& below : command.commands) {
    text += zsh_function(below, function + function_of(below.name));
  }
  if (command.commands.empty()) {
    return fmt::format("{}() {{\n  _arguments{}\n}}\n", function, zsh_arguments(command));
  }
  std::string described, cases;
  for (const CommandModel& below : command.commands) {
    described += " \\\n    " + shell_quoted(zsh_word(below.name) + ":" + below.meaning);
    cases += fmt::format("    {}) {} ;;\n", below.name, function + function_of(below.name));
  }
  return text + fmt::format(R"({0}() {{
  local state line
  local -a commands=({1})
  _arguments -C{2} \
        '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument) case $line[1] in
{3}    esac ;;
  esac
}}
)",
                            function, described, zsh_arguments(command), cases);
}

std::string for_fish(const CommandModel& program) {
  std::string text = fmt::format("# fish completion of {}\n", program.name);
  const auto add = [&](const std::string& when, const std::string& what, const std::string& why) {
    text += fmt::format("complete -c {} -n {}{} -d {}\n", program.name, shell_quoted(when), what,
                        shell_quoted(why));
  };
  const auto add_options = [&](const CommandModel& command, const std::string& when) {
    for (const ArgumentModel& option : command.options) {
      for (const std::string& name : option.names) {
        std::string what =
            name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        if (!option.value.empty()) what += " -r";
        if (!option.choices.empty()) {
          what += " -f -a " + shell_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
        }
        add(when, what, option.meaning);
      }
    }
    for (const ArgumentModel& argument : command.arguments) {
      const std::vector<std::string> words = words_of(argument);
      if (words.empty()) continue;
      add(when, " -f -a " + shell_quoted(fmt::format("{}", fmt::join(words, " "))),
          argument.meaning);
    }
  };
  add_options(program, "__fish_use_subcommand");
  for (const CommandModel& command : program.commands) {
    add("__fish_use_subcommand", " -f -a " + command.name, command.meaning);
    const std::string when = "__fish_seen_subcommand_from " + command.name;
    add_options(command, when);
    const std::vector<std::string> below = names_of(command.commands);
    for (const CommandModel& each : command.commands) {
      const std::string none_yet =
          fmt::format("{}; and not __fish_seen_subcommand_from {}", when, fmt::join(below, " "));
      add(none_yet, " -f -a " + each.name, each.meaning);
      add_options(each, fmt::format("{}; and __fish_seen_subcommand_from {}", when, each.name));
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const CommandModel& program, const std::string& shell) {
  if (shell == "bash") return for_bash(program);
  if (shell == "fish") return for_fish(program);
  const std::string function = function_of(program.name);
  return fmt::format("#compdef {}\n{}{} \"$@\"\n", program.name, zsh_function(program, function),
                     function);
}

}  // namespace vma
