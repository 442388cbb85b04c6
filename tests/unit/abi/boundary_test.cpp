// Goal: errors cross the boundary between C and the library as codes and texts; exceptions do not.
#include "abi/boundary.hpp"

#include <gtest/gtest.h>

#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

namespace vma {
namespace {

TEST(Boundary, EveryKindOfErrorHasAStatusOfItsOwn) {
  std::set<int> statuses{VMART_OK, VMART_INTERNAL};
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::not_permitted); ++kind) {
    const vmart_status status = to_status(static_cast<ErrorKind>(kind));
    EXPECT_TRUE(statuses.insert(status).second) << to_string(static_cast<ErrorKind>(kind));
  }
}

TEST(Boundary, NothingThatIsThrownGetsOut) {
  EXPECT_EQ(at_boundary([] {}), VMART_OK);
  EXPECT_EQ(at_boundary([] { throw Error(ErrorKind::busy, "a call", "a reason"); }), VMART_BUSY);
  EXPECT_STREQ(vmart_last_error(), "a call: busy: a reason");
  EXPECT_EQ(at_boundary([] { throw std::bad_alloc(); }), VMART_INTERNAL);
  EXPECT_NE(std::string(vmart_last_error()).find("bad_alloc"), std::string::npos);
  EXPECT_EQ(at_boundary([] { throw 5; }), VMART_INTERNAL);
  EXPECT_NE(std::string(vmart_last_error()).find("unknown type"), std::string::npos);
}

TEST(Boundary, ALongTextIsCutOffAndAShorterOneFollowsItWhole) {
  at_boundary([] { throw std::runtime_error(std::string(100'000, 'x')); });
  const std::size_t length = std::string(vmart_last_error()).size();
  EXPECT_GT(length, 500u);
  EXPECT_LT(length, 100'000u);
  at_boundary([] { throw std::runtime_error("short"); });
  EXPECT_STREQ(vmart_last_error(), "short");
}

TEST(Boundary, EachThreadHasErrorsOfItsOwn) {
  at_boundary([] { throw std::runtime_error("mine"); });
  std::string before = "not asked", after;
  std::thread([&] {
    before = vmart_last_error();
    at_boundary([] { throw std::runtime_error("another's"); });
    after = vmart_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after, "another's");
  EXPECT_STREQ(vmart_last_error(), "mine");
}

TEST(Boundary, LocationsCrossBothWaysAndOthersAreRefused) {
  for (const Place at : {gpu(0), gpu(3), host(0), host(1)}) {
    EXPECT_EQ(to_place(to_c(at), "a call"), at);
  }
  EXPECT_EQ(at_boundary([] { to_place({2, 0}, "a call"); }), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(at_boundary([] { to_place({-1, 0}, "a call"); }), VMART_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace vma
