// Goal: one table lists all environment variables, nothing else reads any, and the reference page
// documents the same ones. An invalid value is refused by name; an unknown name is reported with
// the likely intended one. Method: compares the table, the page and the sources.
#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace vma {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// Sets a variable within a scope.
struct Set {
  const char* name;
  Set(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Set() { unsetenv(name); }
};

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Environment, ThePageShowsTheTable) {
  std::istringstream page(text_of(fs::path(VMART_SOURCE_FOLDER) / "docs/reference/environment.md"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `VMART_")) rows.push_back(line);
  }
  const auto variables = environment_variables();
  ASSERT_EQ(rows.size(), variables.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string wanted =
        fmt::format("| `{}` | {} | {} | ", variables[i].name, environment_takes(variables[i].name),
                    variables[i].otherwise);
    EXPECT_TRUE(rows[i].starts_with(wanted)) << rows[i] << "\nis not\n" << wanted;
  }
}

TEST(Environment, NothingElseReadsAVariable) {
  for (const auto& entry : fs::recursive_directory_iterator(VMART_SOURCE_FOLDER "/runtime")) {
    const std::string extension = entry.path().extension();
    if (extension != ".cpp" && extension != ".hpp" && extension != ".py") continue;
    if (entry.path().filename() == "environment.cpp") continue;
    if (entry.path().native().find("/interpose/") != std::string::npos) continue;  // Without it.
    const std::string text = text_of(entry.path());
    for (const char* reader : {"getenv(\"VMART_", "environ[\"VMART_", "environ.get(\"VMART_"}) {
      EXPECT_EQ(text.find(reader), std::string::npos) << entry.path() << " has " << reader;
    }
  }
}

/// A program with more rights than its caller must not obey the caller.
TEST(Environment, IsReadInOnePlaceThatIgnoresACallerWithFewerRights) {
  for (const auto& entry : fs::recursive_directory_iterator(VMART_SOURCE_FOLDER "/runtime")) {
    const std::string extension = entry.path().extension();
    if (extension != ".cpp" && extension != ".hpp") continue;
    const std::string text = text_of(entry.path());
    const bool may = entry.path().filename() == "environment.cpp" ||
                     entry.path().native().find("/interpose/") != std::string::npos;
    constexpr std::string_view reader = "getenv(", secure = "secure_";
    for (std::size_t at = 0; (at = text.find(reader, at)) != std::string::npos; ++at) {
      const std::string_view before = std::string_view(text).substr(0, at);
      EXPECT_TRUE(may && before.ends_with(secure)) << entry.path();
    }
  }
}

/// The library must not warn about variables that programs of the source tree read themselves.
TEST(Environment, KnowsWhatTestsAndBenchmarksRead) {
  const std::regex reads(R"((?:getenv|environment|environ(?:\.get)?)[(\[]["'](VMART_\w+))");
  std::set<std::string> names;
  for (const char* folder : {"/tests", "/bench", "/examples"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(VMART_SOURCE_FOLDER + std::string(folder))) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".py") continue;
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator match(text.begin(), text.end(), reads), end; match != end;
           ++match) {
        names.insert((*match)[1]);
      }
    }
  }
  EXPECT_TRUE(names.contains("VMART_TWIN_SWITCHES"));
  EXPECT_TRUE(names.contains("VMART_SEED"));
  names.insert("VMART_VLLM");  // The Python package's.
  for (const std::string& name : names) EXPECT_FALSE(unknown_variable(name)) << name;
}

TEST(Environment, RefusesByNameValueAndWhatIsTaken) {
  const Set limit("VMART_HOLD_LIMIT_MS", "soon"), flag("VMART_DRY_RUN", "perhaps"),
      folder("VMART_RECORD", "yes"), bytes("VMART_SIM_BYTES", "0"),
      size("VMART_COPY_BUDGET", "4 GiB");
  EXPECT_EQ(refusal([] { environment_number("VMART_HOLD_LIMIT_MS"); }),
            "vma::Runtime: invalid_argument: VMART_HOLD_LIMIT_MS is \"soon\"; expected "
            "milliseconds, at least 1 and at most 86400000");
  EXPECT_EQ(refusal([] { environment_flag("VMART_DRY_RUN"); }),
            "vma::Runtime: invalid_argument: VMART_DRY_RUN is \"perhaps\"; expected 1, yes, on, "
            "true or 0, no, off, false");
  const Set shouted("VMART_DRY_RUN", "AUTO");
  EXPECT_NE(refusal([] { environment_flag("VMART_DRY_RUN"); }).find("\"AUTO\""), std::string::npos);
  EXPECT_EQ(refusal([] { environment_path("VMART_RECORD"); }),
            "vma::Runtime: invalid_argument: VMART_RECORD is \"yes\"; expected a folder, or 0");
  EXPECT_NE(refusal([] { environment_bytes("VMART_SIM_BYTES"); }).find("at least 1"),
            std::string::npos);
  EXPECT_NE(refusal([] { environment_bytes("VMART_COPY_BUDGET"); }).find("\"4 GiB\""),
            std::string::npos);
}

TEST(Environment, TakesYesAndNoInWords) {
  for (const char* yes : {"1", "yes", "ON", "True"}) EXPECT_EQ(yes_or_no(yes), true) << yes;
  for (const char* no : {"0", "no", "OFF", "False"}) EXPECT_EQ(yes_or_no(no), false) << no;
  EXPECT_EQ(yes_or_no("2"), std::nullopt);
  EXPECT_EQ(yes_or_no(""), std::nullopt);
  const Set trace("VMART_TIMELINE", "0"), record("VMART_RECORD", "no"),
      control("VMART_CONTROL", "yes"), decisions("VMART_DECISIONS", "here.jsonl");
  EXPECT_EQ(environment_place("VMART_TIMELINE"), std::nullopt);
  EXPECT_EQ(environment_path("VMART_RECORD"), std::nullopt);
  EXPECT_EQ(environment_place("VMART_CONTROL"), "auto");
  EXPECT_EQ(environment_path("VMART_DECISIONS"), "here.jsonl");
}

TEST(Environment, NamesTheNearestOfAnUnknownVariable) {
  const auto nearest = [](const char* name) {
    const auto unknown = unknown_variable(name);
    return unknown ? unknown->nearest : "known";
  };
  EXPECT_EQ(nearest("VMART_POLCIY"), "VMART_POLICY");
  EXPECT_EQ(nearest("VMART_GATE_LIMIT_MS"), "VMART_GATE_LIMIT_US");
  EXPECT_EQ(nearest("VMART_TIMELINES"), "VMART_TIMELINE");
  EXPECT_EQ(nearest("VMART_SOMETHING_ELSE"), "");
  EXPECT_EQ(nearest("VMART_POLICY"), "known");
  EXPECT_EQ(nearest("VMART_SEED"), "known");
  EXPECT_EQ(nearest("VMART"), "known");
  EXPECT_EQ(nearest("PATH"), "known");
}

class EnvironmentDeathTest : public testing::Test {
 protected:
  EnvironmentDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(EnvironmentDeathTest, WarnsOnceOfWhatNobodyReads) {
  const auto warn = [] {
    clearenv();
    setenv("VMART_POLCIY", "stay_put", 1);
    warn_of_unknown_variables();
    warn_of_unknown_variables();
    std::_Exit(0);
  };
  EXPECT_EXIT(warn(), testing::ExitedWithCode(0),
              "^vmart: warn: VMART_POLCIY is set, but vmart has no such variable; did you "
              "mean VMART_POLICY.\n$");
}

TEST(Printable, HasNoControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a?[2Jb??");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m \xC2\xA0\xC3\xA9"),
            "??31m \xC2\xA0\xC3\xA9");
  EXPECT_EQ(printable_lines("one\ntwo\x1b"), "one\ntwo?");
}

}  // namespace
}  // namespace vma
