// Goal: an error names the call, its kind and the details; its copies share their contents and do
// not throw.
#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

namespace vma {
namespace {

TEST(Error, SaysCallKindAndDetail) {
  const Error error(ErrorKind::out_of_memory, "cuMemCreate", "4096 bytes at gpu(0)", 2);
  EXPECT_STREQ(error.what(), "cuMemCreate: out_of_memory: 4096 bytes at gpu(0)");
  EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  EXPECT_EQ(error.call(), "cuMemCreate");
  EXPECT_EQ(error.native(), 2);
  EXPECT_EQ(error.report(), nullptr);
}

TEST(Error, EveryKindHasItsOwnName) {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::not_permitted); ++kind) {
    names.insert(to_string(static_cast<ErrorKind>(kind)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(ErrorKind::not_permitted) + 1);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_TRUE(names.contains("driver_gone"));
}

TEST(Error, CarriesTheReportOfTheMigrationThatItEnded) {
  const Error plain(ErrorKind::busy, "vma::migrate", "the limit", 600);
  MigrationReport report;
  report.chunks = 7;
  report.route = "gpu(0)->gpu(1)";
  const Error error = plain.with_report(report);
  EXPECT_EQ(plain.report(), nullptr);
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->chunks, 7);
  EXPECT_EQ(error.report()->route, "gpu(0)->gpu(1)");
  EXPECT_STREQ(error.what(), plain.what());
  EXPECT_EQ(error.kind(), ErrorKind::busy);
  EXPECT_EQ(error.native(), 600);
}

TEST(Error, CopiesShareAndDoNotThrow) {
  static_assert(std::is_nothrow_copy_constructible_v<Error>);
  const Error error =
      Error(ErrorKind::pinned, "vma::free", "a HostView").with_report(MigrationReport());
  const Error copy = error;
  EXPECT_EQ(copy.report(), error.report());
  EXPECT_EQ(&copy.call(), &error.call());
}

TEST(Error, IsCaughtAsARuntimeError) {
  try {
    throw Error(ErrorKind::unsupported, "vma::migrate", "live");
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("live"), std::string::npos);
  }
}

}  // namespace
}  // namespace vma
