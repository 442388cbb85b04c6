// Goal: lines are read unchanged, whatever ends them and wherever the reader's buffer ends.

#include "lab/trace/line_reader.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

namespace vma {
namespace {

class LineReaderTest : public testing::Test {
 protected:
  std::vector<std::string> lines(const std::string& text) {
    write_text(path_, text);
    LineReader reader(path_);
    std::vector<std::string> found;
    while (const auto line = reader.next()) {
      found.emplace_back(*line);
      EXPECT_EQ(reader.line(), found.size());
      EXPECT_FALSE(reader.cut());
    }
    return found;
  }

  using Lines = std::vector<std::string>;
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "text";
};

TEST_F(LineReaderTest, EndsAreOfEitherKindAndTheLastMayLack) {
  EXPECT_EQ(lines(""), Lines{});
  EXPECT_EQ(lines("a\nb\r\n\nc"), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(lines("a\n"), (Lines{"a"}));
  EXPECT_EQ(lines("\n\n"), (Lines{"", ""}));
}

TEST_F(LineReaderTest, LinesLieAcrossWindows) {
  std::string text;
  Lines expected;
  for (std::size_t number = 0; text.size() < 5 * LineReader::line_bytes_max; ++number) {
    expected.push_back(std::to_string(number) + std::string(number * 7919 % 60'000, 'x'));
    text += expected.back() + '\n';
  }
  EXPECT_EQ(lines(text), expected);
}

TEST_F(LineReaderTest, ALineThatIsTooLongIsCutAndTheNextIsWhole) {
  constexpr std::size_t most = LineReader::line_bytes_max;
  write_text(path_, "a\n" + std::string(most, 'x') + '\n' + std::string(3 * most, 'y') + "\nb\n" +
                        std::string(most + 1, 'z'));
  LineReader reader(path_);
  EXPECT_EQ(reader.next(), "a");
  EXPECT_EQ(reader.next()->size(), most);
  EXPECT_FALSE(reader.cut());
  EXPECT_EQ(reader.next()->size(), most);
  EXPECT_TRUE(reader.cut());
  EXPECT_EQ(reader.next(), "b");
  EXPECT_FALSE(reader.cut());
  EXPECT_EQ(reader.line(), 4u);
  EXPECT_EQ(reader.next()->size(), most);
  EXPECT_TRUE(reader.cut());
  EXPECT_EQ(reader.next(), std::nullopt);
}

// "one\ntwo\n", compressed by gzip.
constexpr unsigned char compressed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
                                        0xcb, 0xcf, 0x4b, 0xe5, 0x2a, 0x29, 0xcf, 0xe7, 0x02, 0x00,
                                        0xe6, 0x0b, 0xba, 0x12, 0x08, 0x00, 0x00, 0x00};

TEST_F(LineReaderTest, ACompressedFileIsReadAsItWas) {
  if (!reads_compressed()) GTEST_SKIP() << "built without zlib";
  const std::string text(std::begin(compressed), std::end(compressed));
  EXPECT_EQ(lines(text), (Lines{"one", "two"}));
}

TEST_F(LineReaderTest, ACompressedFileThatEndsTooEarlyIsRefused) {
  if (!reads_compressed()) GTEST_SKIP() << "built without zlib";
  const std::string text(std::begin(compressed), std::end(compressed) - 9);
  EXPECT_NE(error_of([&] { lines(text); }).find(path_), std::string::npos);
}

TEST_F(LineReaderTest, WhatCannotBeReadIsNamed) {
  const std::string path = folder_ / "none";
  EXPECT_NE(error_of([&] { LineReader reader(path); }).find(path), std::string::npos);
  EXPECT_NE(
      error_of([&] { LineReader(folder_.path().string()).next(); }).find(folder_.path().string()),
      std::string::npos);
}

}  // namespace
}  // namespace vma
