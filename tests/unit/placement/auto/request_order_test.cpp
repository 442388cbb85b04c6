// Goal: each request is recognized as the repetition of the right earlier one. Method: sequences of
// letters, one per request.
#include "placement/auto/repeated_lives.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace vma {
inline namespace v1 {
namespace {

/// What the letters of the last text repeat.
std::vector<std::optional<RequestOrder::Number>> repeated(const std::vector<std::string>& texts) {
  RequestOrder order;
  std::vector<std::optional<RequestOrder::Number>> found;
  for (const std::string& text : texts) {
    found.clear();
    for (const char letter : text) found.push_back(order.add(static_cast<std::uint64_t>(letter)));
  }
  return found;
}

TEST(RequestOrder, KnowsNothingInTheFirstIteration) {
  for (const auto& number : repeated({"abcdefgh"})) EXPECT_EQ(number, std::nullopt);
}

TEST(RequestOrder, FindsThePreviousIterationAfterThreeRequests) {
  const auto found = repeated({"abcdefgh", "abcdefgh"});
  EXPECT_EQ(found[1], std::nullopt);
  for (std::size_t i = 2; i < 8; ++i) EXPECT_EQ(found[i], i) << i;
}

// Four equal layers: each letter repeats the layer before, and that of the iteration before. The
// longer agreement counts.
TEST(RequestOrder, TellsEqualLayersApart) {
  const std::string iteration = "xyzabcabcabcabcw";
  const auto found = repeated({iteration, iteration});
  for (std::size_t i = 2; i < iteration.size(); ++i) EXPECT_EQ(found[i], i) << i;
}

TEST(RequestOrder, BearsMissingRequestsAndOthers) {
  const auto found = repeated({"abcdefghij", "abcdfg!hij"});
  EXPECT_EQ(found[4], 5u) << "without e";
  EXPECT_EQ(found[6], std::nullopt) << "! is new";
  EXPECT_EQ(found[7], 7u);
  EXPECT_EQ(found[9], 9u);
}

TEST(RequestOrder, ForgetsWhatIsTooLongAgo) {
  RequestOrder order;
  for (RequestOrder::Number i = 0; i < RequestOrder::kept; ++i) order.add(1000 + i);
  EXPECT_TRUE(order.has(1));
  for (RequestOrder::Number i = 0; i < RequestOrder::kept; ++i) order.add(1000 + i);
  EXPECT_FALSE(order.has(RequestOrder::kept)) << "as far back as the ring is long";
  EXPECT_TRUE(order.has(RequestOrder::kept + 1));
}

}  // namespace
}  // namespace v1
}  // namespace vma
