#include "tools/command_line/command_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace vma {
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
