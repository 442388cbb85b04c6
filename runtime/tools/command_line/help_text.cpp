#include "tools/command_line/command_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
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

namespace {

/// A text of roff: no letter of it is an instruction, and hyphens can be searched for and copied.
std::string escaped(std::string_view text) {
  std::string written;
  for (const char letter : text) {
    if (letter == '\\') {
      written += "\\e";
    } else if (letter == '-') {
      written += "\\-";
    } else {
      written += letter;
    }
    if (letter == '\n') written += "\\&";
  }
  return "\\&" + written;
}

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  return text;
}

void add_arguments(std::string& page, const std::vector<ArgumentModel>& arguments) {
  for (const ArgumentModel& each : arguments) {
    page += fmt::format(".TP\n\\fB{}\\fR", escaped(fmt::format("{}", fmt::join(each.names, ", "))));
    if (each.names[0].starts_with("-") && !each.value.empty()) {
      page += fmt::format(" \\fI{}\\fR", escaped(each.value));
    }
    page += "\n" + escaped(each.meaning) + "\n";
  }
}

void add_footer(std::string& page, const std::string& footer) {
  if (footer.empty()) return;
  page += ".PP\n.nf\n" + escaped(footer) + "\n.fi\n";
}

void add_command(std::string& page, const CommandModel& command) {
  page += fmt::format(".SS {}\n{}\n.PP\n\\fB{}\\fR\n", escaped(command.path),
                      escaped(command.meaning), escaped(command.usage));
  add_arguments(page, command.arguments);
  add_arguments(page, command.options);
  add_footer(page, command.footer);
  for (const CommandModel& below : command.commands) add_command(page, below);
}

}  // namespace

std::string manual_page(const CommandModel& program, const std::string& version) {
  std::string page = fmt::format(".TH {} 1 \"\" \"{}\" \"User Commands\"\n",
                                 in_capitals(program.name), escaped(version));
  std::string meaning = program.meaning;
  if (meaning.ends_with('.')) meaning.pop_back();
  page += fmt::format(".SH NAME\n{} \\- {}\n", escaped(program.name), escaped(meaning));
  page += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR\n.SH OPTIONS\n", escaped(program.usage));
  add_arguments(page, program.options);
  page += ".SH COMMANDS\n";
  for (const CommandModel& command : program.commands) add_command(page, command);
  add_footer(page, program.footer);
  page +=
      ".SH EXIT STATUS\n0 if the command did what it says, 1 if it was refused or failed, 2 for "
      "wrong usage.\n.SH SEE ALSO\nvmart(1), vmart\\-lab(1)\n";
  return page;
}

}  // namespace vma
