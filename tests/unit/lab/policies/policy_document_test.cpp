// Goal: docs/guide/policies.md documents every built-in policy with all its parameters, and every
// refusal reason of the planner. Method: reads its tables as text.
#include "placement/planning/planned_move.hpp"
#include "lab/policies/lab_policies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace vma {
namespace {

/// The text of the document between a heading and the next one.
std::string section(const std::string& heading) {
  std::ifstream file(VMART_DOCS "/guide/policies.md");
  std::string text, line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (inside) text += line + "\n";
  }
  EXPECT_FALSE(text.empty()) << "no '" << heading << "' in " << VMART_DOCS << "/guide/policies.md";
  return text;
}

/// The table rows about `name`: its own row, and the rows below it whose first cell is empty.
std::string rows_of(const std::string& name, const std::string& table) {
  std::istringstream lines(table);
  std::string rows, line;
  bool its = false;
  while (std::getline(lines, line)) {
    if (!line.starts_with("| |")) its = line.starts_with("| `" + name + "` |");
    if (its) rows += line + "\n";
  }
  return rows;
}

/// What stands in backticks in the second cell of rows.
std::vector<std::string> parameters_in(const std::string& rows) {
  std::vector<std::string> names;
  std::istringstream lines(rows);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find('|', 1) + 1;
    std::string cell = line.substr(begin, line.find('|', begin) - begin);
    for (std::size_t at; (at = cell.find('`')) != std::string::npos;) {
      const std::size_t end = cell.find('`', at + 1);
      names.push_back(cell.substr(at + 1, end - at - 1));
      cell.erase(0, end + 1);
    }
  }
  return names;
}

TEST(PolicyDocument, HasEveryPolicyAndParameter) {
  const std::string policies = section("The policies"), parameters = section("Parameters");
  for (const PolicyKind& kind : lab_policies().kinds()) {
    EXPECT_NE(rows_of(kind.name, policies), "") << kind.name;
    const std::string rows = rows_of(kind.name, parameters);
    for (const PolicyParameter& parameter : kind.parameters) {
      EXPECT_NE(rows.find("`" + parameter.name + "`"), std::string::npos)
          << kind.name << ":" << parameter.name;
    }
    for (const std::string& name : parameters_in(rows)) {
      EXPECT_NE(std::ranges::find(kind.parameters, name, &PolicyParameter::name),
                kind.parameters.end())
          << kind.name << " has no " << name;
    }
  }
}

TEST(PolicyDocument, HasEveryReasonOfThePlanner) {
  const std::string reasons = section("What the planner refuses");
  for (std::size_t i = 0; i < MoveRefusal::count; ++i) {
    const std::string name(to_string(static_cast<MoveRefusal::Why>(i)));
    EXPECT_NE(reasons.find("`" + name + "`"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace vma
