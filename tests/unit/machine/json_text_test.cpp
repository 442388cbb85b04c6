// Goal: values of a hand-written JSON file are read exactly, and errors name the right line.
#include "machine/json_reader.hpp"
#include "machine/json_text.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

const char* const sample = R"({
  "name": "a \"b\" {",
  "list": [1,
    {"x": 1.50, "y":
      [true, null]},
    []
  ],
  "last": {}
})";

std::string refusal(const std::string& text) {
  try {
    JsonText(text, "some.json", "reading");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return {};
}

TEST(JsonText, KnowsTheLineOfEveryPlace) {
  const JsonText text(sample, "some.json", "reading");
  EXPECT_EQ(text.line(""), 1u);
  EXPECT_EQ(text.line("name"), 2u);
  EXPECT_EQ(text.line("list"), 3u);
  EXPECT_EQ(text.line("list[0]"), 3u);
  EXPECT_EQ(text.line("list[1]"), 4u);
  EXPECT_EQ(text.line("list[1].y"), 4u);  // The line of the key, not of its value.
  EXPECT_EQ(text.line("list[1].y[1]"), 5u);
  EXPECT_EQ(text.line("list[2]"), 6u);
  EXPECT_EQ(text.line("last"), 8u);
}

TEST(JsonText, OfWhatIsMissingItKnowsTheLineOfWhatEnclosesIt) {
  const JsonText text(sample, "some.json", "reading");
  EXPECT_EQ(text.line("list[1].z"), 4u);
  EXPECT_EQ(text.line("list[1].z.deeper[3]"), 4u);
  EXPECT_EQ(text.line("last.z"), 8u);
  EXPECT_EQ(text.line("none"), 1u);
}

TEST(JsonText, GivesValuesAsTheyAreWritten) {
  const JsonText text(sample, "some.json", "reading");
  EXPECT_EQ(text.written("name"), R"("a \"b\" {")");
  EXPECT_EQ(text.written("list[1].x"), "1.50");
  EXPECT_EQ(text.written("list[2]"), "[]");
  EXPECT_EQ(text.written("last"), "{}");
  EXPECT_EQ(text.written("none"), "");
}

TEST(JsonText, RefusesByLine) {
  EXPECT_NE(refusal("{\"a\": 1,\n\"a\": 2}").find("some.json: line 2: a: appears twice"),
            std::string::npos);
  EXPECT_NE(refusal("{\"a\": 1,\n,}").find("some.json: line 2: "), std::string::npos);
  EXPECT_NE(refusal("{}\n\n x").find("some.json: line 3: "), std::string::npos);
  EXPECT_NE(refusal("").find("some.json: line 1: "), std::string::npos);
  EXPECT_EQ(refusal(" {} \n"), "");
  EXPECT_EQ(refusal("17"), "");
}

TEST(JsonText, NumbersAreExact) {
  // Boost.JSON's own parser is off by one ulp here.
  const JsonText text(R"({"a": 4.742589867636229E2, "b": -3, "c": "1", "d": null})", "x",
                      "reading");
  EXPECT_EQ(text.number("a"), 474.2589867636229);
  EXPECT_EQ(text.number("b"), -3);
  EXPECT_EQ(text.number("c"), std::nullopt);
  EXPECT_EQ(text.number("d"), std::nullopt);
  EXPECT_EQ(text.number("e"), std::nullopt);
}

TEST(JsonText, AFolderAndWhatIsNotThereCannotBeRead) {
  for (const char* const path : {"/", "none/at/all.json"}) {
    try {
      JsonText::load(path, "reading");
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(": cannot be read"), std::string::npos);
    }
  }
}

TEST(JsonText, ItsReadersNameTheLine) {
  const JsonText text(sample, "some.json", "reading");
  JsonReader reader(text);
  try {
    reader.element("list", 1).number("x", 2, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "reading: invalid_argument: some.json: line 4: list[1].x: 1.5 is not between 2 "
                 "and 3");
  }
  EXPECT_EQ(reader.where("last.z"), "some.json: line 8: last.z");
}

}  // namespace
}  // namespace vma
