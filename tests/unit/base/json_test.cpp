// Goal: values of a hand-written JSON file are read exactly, and errors name the file, the line or
// the path, and the reason.
#include "base/json.hpp"

#include <vma/error.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

namespace vma {
namespace {

const char* const sample = R"({
  "name": "a \"b\" {\u00e9",
  "li\u0073t": [1,
    {"x": 1.50, "y":
      [true, null, -7, 18446744073709551615]},
    []
  ],
  "last": {}
})";

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "some.json", "reading");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return {};
}

TEST(ParseJson, ReadsWhatBoostReads) {
  for (const char* const text : {sample, " {} \n", "17", "\n\n[ ]\n", "\"\"", "1e400", "-0.0"}) {
    EXPECT_EQ(parse_json(text, "some.json", "reading"), boost::json::parse(text)) << text;
  }
  const std::string text(5000, 'x');  // More than the parser buffers.
  EXPECT_EQ(parse_json("{\"" + text + "\\n\": \"\\n" + text + "\"}", "f", "c"),
            (boost::json::value{{text + "\n", "\n" + text}}));
}

TEST(ParseJson, RefusesByLine) {
  EXPECT_EQ(refusal("{\"a\": 1,\n\"a\": 2}"),
            "reading: invalid_argument: some.json: line 2: a: appears twice");
  EXPECT_NE(refusal("{\"\": 1, \"\": 2}").find("line 1: : appears twice"), std::string::npos);
  EXPECT_NE(refusal("{\"b\": [{\"a\": 1},\n{\"a\": 2, \"\\u0061\": 3}]}")
                .find("line 2: b.a: appears twice"),
            std::string::npos);
  EXPECT_NE(refusal("{\"a\": 1,\n,}").find("some.json: line 2: "), std::string::npos);
  EXPECT_NE(refusal("{}\n\n x").find("some.json: line 3: "), std::string::npos);
  EXPECT_NE(refusal("[1,\n2").find("some.json: line 2: "), std::string::npos);
  EXPECT_NE(refusal("").find("some.json: line 1: "), std::string::npos);
  EXPECT_EQ(refusal("[{\"a\": {\"a\": 1}}, {\"a\": 1}]"), "");
}

TEST(ParseJson, NumbersAreExact) {
  // Boost.JSON's own parser is off by one ulp here.
  const auto value =
      parse_json(R"({"a": 4.742589867636229E2, "b": [474.2589867636229]})", "f", "c");
  EXPECT_EQ(value.at("a").as_double(), 474.2589867636229);
  EXPECT_EQ(value.at("b").at(0).as_double(), 474.2589867636229);
}

TEST(JsonReader, NamesTheFileAndThePath) {
  const auto value = parse_json(sample, "some.json", "reading");
  JsonReader reader(value, "some.json", "", "reading");
  try {
    reader.element("list", 1).number("x", 2, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "reading: invalid_argument: some.json: list[1].x: 1.5 is not between 2 and 3");
  }
  EXPECT_EQ(reader.where("last.z"), "some.json: last.z");
  EXPECT_EQ(reader.where(""), "some.json: the whole file");
}

}  // namespace
}  // namespace vma
