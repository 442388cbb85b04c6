/// Goal: policies load from real shared objects, which CMake builds next to this test.

#include "placement/policies/built_in_policies.hpp"
#include "scheduling/policy_library.hpp"

#include "placement/books/chunk_tables.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace vma {
namespace {

std::string path_of(const std::string& library) {
  return std::string(VMART_POLICY_LIBRARIES) + "/" + library + ".so";
}

std::string refusal(const std::string& text) {
  try {
    load_policy(text, built_in_policies());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << text << " was loaded";
  return "";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double value_that(Policy& policy) {
  ChunkTables tables({{gpu(0), 8, 0, 0}}, MachineCosts(1, 1));
  Plan plan;
  policy.on_use({ChunkId{0}, PlaceId{0}, 1, 0}, Snapshot(tables), plan);
  return plan.moves().empty() ? -1 : plan.moves().front().value;
}

/// A program that loads policies must contain their base class; this makes sure that this one does.
struct Stays : Policy {};

TEST(PolicyLibrary, LoadsAPolicyWithItsParameters) {
  Stays stays;
  EXPECT_EQ(value_that(stays), -1);
  EXPECT_EQ(load_policies(path_of("good")).kinds().at(0).name, "follow");
  EXPECT_EQ(value_that(*load_policy(path_of("good"), built_in_policies())), 2);
  EXPECT_EQ(value_that(*load_policy(path_of("good") + ":uses=7", built_in_policies())), 7);
  EXPECT_EQ(value_that(*load_policy("follow@" + path_of("good") + ":uses=3", built_in_policies())),
            3);
}

TEST(PolicyLibrary, RefusesWrongNamesAndParameters) {
  EXPECT_TRUE(
      says(refusal("lead@" + path_of("good")), "it has no policy 'lead'; name one of follow"));
  EXPECT_TRUE(says(refusal(path_of("good") + ":speed=1"), "uses: count, 1 to 9, default 2"));
}

TEST(PolicyLibrary, TakesOneOfSeveralByItsName) {
  EXPECT_NE(load_policy("south@" + path_of("several"), built_in_policies()), nullptr);
  EXPECT_NE(load_policy("guarded+north@" + path_of("several"), built_in_policies()), nullptr);
  EXPECT_TRUE(
      says(refusal(path_of("several")), "it has several; name one of north, south as NAME@"));
  EXPECT_TRUE(says(refusal("west@" + path_of("several")), "it has no policy 'west'; name one of"));
}

TEST(PolicyLibrary, NamesWhatDoesNotFitBeforeAnythingIsCalled) {
  EXPECT_TRUE(says(refusal(path_of("other_size")), "its size is '8'"));
  EXPECT_TRUE(says(refusal(path_of("other_interface")), "its interface is '1', vmart's is '3'"));
  const std::string own = policy_interface_version;
  EXPECT_TRUE(says(refusal(path_of("other_version")),
                   "its version is '9" + own.substr(1) + "', vmart's is '" + own));
  EXPECT_TRUE(says(refusal(path_of("other_compiler")), "its compiler is 'x"));
  EXPECT_TRUE(says(refusal(path_of("other_alignment")), "its alignment is '3'"));
  EXPECT_TRUE(says(refusal(path_of("other_layout")), "its layout is '"));
  EXPECT_TRUE(says(refusal(path_of("no_kinds")), "it has no policy"));
}

TEST(PolicyLibrary, RefusesWhatIsNoPolicy) {
  EXPECT_TRUE(says(refusal(path_of("empty")), "no vmart_policies"));
  EXPECT_TRUE(says(refusal(path_of("empty")), "g++ -std=c++20 -shared -fPIC "));
  EXPECT_TRUE(says(refusal(path_of("missing")), "missing.so"));
  const std::string text = testing::TempDir() + "/policy_that_is_text.so";
  std::ofstream(text) << "this is no shared object, however long it may be made to look";
  EXPECT_TRUE(says(refusal(text), "policy_that_is_text.so"));
  EXPECT_TRUE(says(refusal(text), "g++ -std=c++20 -shared -fPIC "));
}

TEST(PolicyLibrary, FindsBuiltInPoliciesByName) {
  EXPECT_TRUE(says(refusal("no_such_policy"), "no policy 'no_such_policy'; known are "));
}

}  // namespace
}  // namespace vma
