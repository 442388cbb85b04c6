#include "tools/command_line/command_line.hpp"

#include "base/nearest_name.hpp"
#include "base/printable.hpp"
#include "tools/command_line/build_information.hpp"
#include "tools/command_line/command_model.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace vma {
namespace {

constexpr int wrong_usage = 2;
constexpr std::string_view example = "Example: ";

using Arguments = std::vector<std::string>;

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    return help_text(model_of(*app, name.empty() ? app->get_name() : name));
  }
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* each : commands_of(app))
    if (each->get_name() == name) return each;
  return nullptr;
}

/// The innermost command that the arguments name, and the model of it.
struct Named {
  const CLI::App* command;
  std::string path;
  std::size_t arguments;  // How many of them are its path.
};

Named named_by(const CLI::App& app, const Arguments& arguments) {
  Named named{&app, app.get_name(), 0};
  while (named.arguments < arguments.size()) {
    const CLI::App* below = command_named(*named.command, arguments[named.arguments]);
    if (below == nullptr) break;
    named.command = below;
    named.path += " " + below->get_name();
    ++named.arguments;
  }
  return named;
}

std::string did_you_mean(std::string_view text, const std::vector<std::string>& names) {
  std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = nearest_name(text, views);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

std::vector<std::string> option_names(const CommandModel& command) {
  std::vector<std::string> names;
  for (const ArgumentModel& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::string unknown_command(const CommandModel& command, const std::string& text) {
  std::vector<std::string> names;
  for (const CommandModel& below : command.commands) names.push_back(below.name);
  return fmt::format("unknown command \"{}\"{}", text, did_you_mean(text, names));
}

std::string unknown_option(const CommandModel& command, const std::string& text) {
  const std::string name = text.substr(0, text.find('='));
  const auto has_it = [&](const CommandModel& below) {
    const std::vector<std::string> names = option_names(below);
    return std::ranges::count(names, name) > 0;
  };
  const auto below = std::ranges::find_if(command.commands, has_it);
  if (below != command.commands.end()) {
    return fmt::format("{} belongs behind the command, as in {} {}", name, below->path, name);
  }
  std::vector<std::string> names = option_names(command);
  if (name.size() == 2) {  // "-v": the long options that begin so.
    std::erase_if(names,
                  [&](const std::string& each) { return each.substr(2, 1) != name.substr(1); });
    return fmt::format("unknown option {}{}", name,
                       names.empty() ? "" : fmt::format("; did you mean {}?", names[0]));
  }
  return fmt::format("unknown option {}{}", name, did_you_mean(name, names));
}

/// The arguments by position that are missing. A list that ends with something else has a value
/// such as "WHAT... PLACE".
std::string missing(const CLI::App& command, const CommandModel& model) {
  std::vector<std::string> names;
  for (const ArgumentModel& each : model.arguments) {
    const CLI::Option* option = command.get_option_no_throw(each.names[0]);
    if (!each.required || option == nullptr) continue;
    const std::size_t last = each.value.rfind(' ');
    const bool list = each.value.find(' ') != std::string::npos;
    if (option->count() == 0) {
      names.push_back(each.names[0]);
    }
    if (list && option->count() < 2) names.push_back(each.value.substr(last + 1));
  }
  if (names.empty()) return {};
  return fmt::format("{} {} missing", fmt::join(names, " and "), names.size() == 1 ? "is" : "are");
}

/// "--mib is 7; expected 8 to 65536" of "--mib: Value 7 not in range 8 to 65536", and the like.
std::string reworded(const std::string& told, const CommandModel& command) {
  const auto expected = [&](const std::string& name) -> std::string {
    for (const auto* list : {&command.options, &command.arguments}) {
      for (const ArgumentModel& each : *list) {
        if (std::ranges::count(each.names, name) == 0) continue;
        if (!each.choices.empty()) return fmt::format("{}", fmt::join(each.choices, ", "));
        const std::size_t range = each.meaning.rfind('(');
        const std::size_t end =
            each.meaning.find_first_of(";)", std::min(range, each.meaning.size()));
        const std::string number = each.value == "N" ? "a number" : "another value";
        if (end == std::string::npos || each.meaning.compare(range, 9, "(default:") == 0)
          return number;
        return number + " from " + each.meaning.substr(range + 1, end - range - 1);
      }
    }
    return "another value";
  };
  const auto is = [&](const std::string& name, const std::string& value) {
    return fmt::format("{} is \"{}\"; expected {}", name, value, expected(name));
  };
  constexpr std::string_view conversion = "Could not convert: ", range = ": Value ",
                             past = " not in range ", member = " not in {";
  if (told.starts_with(conversion)) {
    const std::string rest = told.substr(conversion.size());
    const std::size_t equals = rest.find(" = ");
    if (equals != std::string::npos) return is(rest.substr(0, equals), rest.substr(equals + 3));
  }
  const std::size_t value = told.find(range), end = told.find(past);
  if (value != std::string::npos && end != std::string::npos) {
    const std::size_t begin = value + range.size();
    return is(told.substr(0, value), told.substr(begin, end - begin));
  }
  const std::size_t colon = told.find(": "), set = told.find(member);
  if (colon != std::string::npos && set != std::string::npos) {
    return is(told.substr(0, colon), told.substr(colon + 2, set - colon - 2));
  }
  return told;
}

std::string what_is_wrong(const CLI::App& command, const CommandModel& model,
                          const CLI::ParseError& error, const Arguments& arguments) {
  const std::string told = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    // CLI11 lists them in reversed order.
    const auto first = std::ranges::find_if(arguments, [&](const std::string& each) {
      return (told + " ").find(": " + each + " ") != std::string::npos ||
             (told + " ").find(" " + each + " ") != std::string::npos;
    });
    if (first == arguments.end()) return told;
    return first->starts_with("-") ? unknown_option(model, *first)
                                   : fmt::format("unexpected argument \"{}\"", *first);
  }
  const bool mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  if (mismatch || dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (mismatch && told.starts_with("--")) {
      return fmt::format("{} has no value", told.substr(0, told.find(':')));
    }
    const std::string names = missing(command, model);
    return names.empty() ? told : names;
  }
  return reworded(told, model);
}

std::string usage_error(const CommandModel& model, const std::string& wrong) {
  std::string text = fmt::format("{}: {}\nUsage: {}\n", model.path, wrong, model.usage);
  const std::size_t begin = model.footer.find(example);
  if (begin != std::string::npos) {
    text += model.footer.substr(begin, model.footer.find('\n', begin) - begin) + "\n";
  }
  return text + fmt::format("`{} --help` lists {}\n", model.path,
                            model.commands.empty() ? "the options" : "the commands");
}

void print_wrong(const std::string& text) {
  fmt::print(stderr, "{}", printable_lines(text));
}

/// "help" and "version", which users type, become options. The rest is as it was.
void understand_words(const CLI::App& app, Arguments& arguments) {
  if (arguments.empty()) return;
  if (arguments[0] == "version" && command_named(app, "version") == nullptr)
    arguments[0] = "--version";
  if (arguments[0] != "help" || command_named(app, "help") != nullptr) return;
  arguments.erase(arguments.begin());
  arguments.insert(
      arguments.begin() + static_cast<std::ptrdiff_t>(named_by(app, arguments).arguments),
      "--help");
}

bool asks_for_version_as_json(const Arguments& arguments) {
  const auto is_version = [](const std::string& each) {
    return each == "--version" || each == "-V";
  };
  return arguments.size() == 2 && std::ranges::count(arguments, "--json") == 1 &&
         std::ranges::count_if(arguments, is_version) == 1;
}

/// Of commands and options that do not exist: CLI11 would only say that a command is required.
std::optional<std::string> wrong_command(const CLI::App& app, const Arguments& arguments) {
  const Named named = named_by(app, arguments);
  if (commands_of(*named.command).empty()) return std::nullopt;
  const CommandModel model = model_of(*named.command, named.path);
  if (named.arguments == arguments.size()) return usage_error(model, "which command?");
  const std::string& next = arguments[named.arguments];
  if (!next.starts_with("-")) return usage_error(model, unknown_command(model, next));
  const std::vector<std::string> known = option_names(model);
  if (std::ranges::count(known, next) > 0) return std::nullopt;
  return usage_error(model, unknown_option(model, next));
}

/// What --help lists last.
struct OwnCommands {
  explicit OwnCommands(CLI::App& app)
      : completion(app.add_subcommand("completion", "prints a script that completes the commands")),
        manual(app.add_subcommand("man", "prints the page of the manual, for man -l -")) {
    for (CLI::App* each : {completion, manual}) each->group("Others");
    completion->add_option("SHELL", shell, "the shell that reads it")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    add_example(*completion, fmt::format("source <({} completion bash)", app.get_name()));
  }
  CLI::App *completion, *manual;
  std::string shell;
};

void use_format(CLI::App& app, const std::shared_ptr<CLI::FormatterBase>& format) {
  app.formatter(format);
  for (CLI::App* each : app.get_subcommands([](CLI::App*) { return true; }))
    use_format(*each, format);
}

}  // namespace

void add_example(CLI::App& command, const std::string& text) {
  const std::string footer = command.get_footer();
  command.footer((footer.empty() ? "" : footer + "\n\n") + std::string(example) + text);
}

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  app.set_version_flag("-V,--version", version_text(app.get_name()),
                       "Print the version; with --json, also how the program was built");
  OwnCommands own(app);
  use_format(app, std::make_shared<HelpFormatter>());
  Arguments arguments(argv + 1, argv + argc);
  understand_words(app, arguments);
  if (asks_for_version_as_json(arguments)) {
    fmt::print("{}\n", version_json(app.get_name()));
    return 0;
  }
  if (const auto wrong = wrong_command(app, arguments)) {
    print_wrong(*wrong);
    return wrong_usage;
  }
  try {
    app.parse(Arguments(arguments.rbegin(), arguments.rend()));  // It takes them from the end.
  } catch (const CLI::CallForHelp&) {
    const Named named = named_by(app, arguments);
    fmt::print("{}", help_text(model_of(*named.command, named.path)));
    return 0;
  } catch (const CLI::CallForVersion& told) {
    fmt::print("{}\n", told.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    const Named named = named_by(app, arguments);
    const CommandModel model = model_of(*named.command, named.path);
    print_wrong(usage_error(model, what_is_wrong(*named.command, model, error, arguments)));
    return wrong_usage;
  }
  // A model reads all footers, some of which take time to write.
  if (own.completion->parsed()) {
    fmt::print("{}", completion_script(model_of(app, app.get_name()), own.shell));
    return 0;
  }
  if (own.manual->parsed()) {
    fmt::print("{}", manual_page(model_of(app, app.get_name()), version_text(app.get_name())));
    return 0;
  }
  return std::nullopt;
}

std::string plain_message(const std::string& message) {
  constexpr std::string_view kind = ": invalid_argument: ";
  std::string_view rest = message;
  // What is before it names the call, which has no spaces.
  const std::size_t end = rest.find(kind);
  if (end != std::string_view::npos && rest.find(' ') > end) rest.remove_prefix(end + kind.size());
  if (rest.starts_with("vma::") && rest.find(": ") != std::string_view::npos) {
    rest.remove_prefix(rest.find(": ") + 2);
  }
  return with_place_names(rest);
}

}  // namespace vma
