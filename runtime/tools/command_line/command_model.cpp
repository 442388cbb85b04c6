#include "tools/command_line/command_model.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace vma {
namespace {

/// The first letter becomes a capital, and a full stop ends it.
std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (text.back() != '.') text += '.';
  return text;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// What CLI11 says of a type, "INT:INT in [0 - 256]" or "TEXT:{preload,shim}", and of the default.
void read_type(const CLI::Option& option, ArgumentModel& model) {
  const std::string type = option.get_type_name();
  std::vector<std::string> notes;
  const std::size_t range = type.find(" in ["), end = type.find(']', std::min(range, type.size()));
  if (end != std::string::npos) {
    std::string bounds = type.substr(range + 5, end - range - 5);
    if (const std::size_t dash = bounds.find(" - "); dash != std::string::npos) {
      notes.push_back(bounds.substr(0, dash) + " to " + bounds.substr(dash + 3));
    }
  }
  const std::size_t open = type.find('{'), close = type.find('}', std::min(open, type.size()));
  if (close != std::string::npos) {
    model.choices = split(std::string_view(type).substr(open + 1, close - open - 1), ',');
  }
  if (!option.get_default_str().empty()) notes.push_back("default: " + option.get_default_str());
  if (!notes.empty()) model.meaning += fmt::format(" ({})", fmt::join(notes, "; "));
  const bool text = type.starts_with("TEXT");
  model.value = !model.choices.empty() ? fmt::format("{}", fmt::join(model.choices, "|"))
                : !option.get_option_text().empty() ? option.get_option_text()
                                                    : std::string(text ? "TEXT" : "N");
}

ArgumentModel model_of(const CLI::Option& option) {
  ArgumentModel model;
  model.meaning = option.get_description();
  model.required = option.get_required();
  model.many = option.get_items_expected_max() > 1;
  if (option.get_positional()) {
    model.names.push_back(option.get_name(true));
    read_type(option, model);
    return model;
  }
  for (const std::string& name : option.get_snames()) model.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) model.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0 && option.get_type_size() > 0) read_type(option, model);
  return model;
}

std::string usage_of(const CommandModel& command) {
  std::string usage = command.path + " [OPTIONS]";
  for (const ArgumentModel& each : command.arguments) {
    // A list whose last member is something else says so itself.
    const bool told = each.value.find(' ') != std::string::npos;
    const std::string name = told ? each.value : each.names[0] + (each.many ? "..." : "");
    usage += each.required ? " " + name : " [" + name + "]";
  }
  if (!command.commands.empty()) usage += " COMMAND";
  if (command.runs_program) usage += " -- PROGRAM [ARGUMENT...]";
  return usage;
}

}  // namespace

CommandModel model_of(const CLI::App& app, const std::string& path) {
  CommandModel model;
  model.path = path;
  model.name = app.get_name();
  model.group = app.get_group();
  model.meaning = sentence(app.get_description());
  model.footer = app.get_footer();
  model.runs_program = app.get_prefix_command();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // Hidden.
    (option->get_positional() ? model.arguments : model.options).push_back(model_of(*option));
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_group().empty()) continue;
    model.commands.push_back(model_of(*below, path + " " + below->get_name()));
  }
  model.usage = usage_of(model);
  return model;
}

}  // namespace vma
