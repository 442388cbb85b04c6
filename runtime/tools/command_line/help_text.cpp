#include "tools/command_line/command_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace vma {
namespace {

constexpr std::size_t width = 80;
constexpr std::size_t column = 26;  // Where meanings begin.

/// Adds words to a text whose last line has `used` columns; further lines begin at `indent`.
void wrap(std::string& text, std::string_view words, std::size_t used, std::size_t indent) {
  bool first = true;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (!first && used + 1 + word.size() > width) {
      text += '\n' + std::string(indent, ' ');
      used = indent;
    } else if (!first) {
      text += ' ';
      ++used;
    }
    text += word;
    used += word.size();
    first = false;
  }
  text += '\n';
}

void add_row(std::string& text, const std::string& name, const std::string& meaning) {
  std::string row = "  " + name;
  if (meaning.empty()) {
    text += row + "\n";
    return;
  }
  if (row.size() + 2 > column) {
    text += row + "\n";
    row.clear();
  }
  text += row + std::string(column - row.size(), ' ');
  wrap(text, meaning, column, column);
}

void add_rows(std::string& text, const char* title, const std::vector<ArgumentModel>& rows) {
  if (rows.empty()) return;
  text += fmt::format("\n{}:\n", title);
  for (const ArgumentModel& each : rows) {
    std::string name = fmt::format("{}", fmt::join(each.names, ", "));
    if (each.names[0].starts_with("-") && !each.value.empty()) name += " " + each.value;
    add_row(text, name, each.meaning);
  }
}

/// Lines that are columns already, which begin with two spaces, stay as they are.
void add_footer(std::string& text, std::string_view footer) {
  if (footer.empty()) return;
  text += '\n';
  while (!footer.empty()) {
    const std::size_t end = std::min(footer.find('\n'), footer.size());
    const std::string_view line = footer.substr(0, end);
    footer.remove_prefix(std::min(end + 1, footer.size()));
    const std::size_t gap = line.starts_with("  ") ? line.find("  ", 2) : std::string_view::npos;
    const std::size_t told = line.find_first_not_of(' ', gap == std::string_view::npos ? 0 : gap);
    if (gap == std::string_view::npos || told == std::string_view::npos) {
      wrap(text, line, 0, line.starts_with("  ") ? 4 : 0);
      continue;
    }
    text += line.substr(0, told);
    wrap(text, line.substr(told), told, std::min<std::size_t>(told, 34));
  }
}

}  // namespace

std::string help_text(const CommandModel& command) {
  std::string text;
  wrap(text, command.meaning, 0, 0);
  text += '\n';
  wrap(text, "Usage: " + command.usage, 0, 4);
  add_rows(text, "Arguments", command.arguments);
  add_rows(text, "Options", command.options);
  std::vector<std::string> groups;
  for (const CommandModel& below : command.commands) {
    if (std::ranges::count(groups, below.group) == 0) groups.push_back(below.group);
  }
  for (const std::string& group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const CommandModel& below : command.commands) {
      if (below.group == group) add_row(text, below.name, below.meaning);
    }
  }
  add_footer(text, command.footer);
  return text;
}

}  // namespace vma
