/// Goal: policies are found by name and their parameters parsed from text; errors get clear
/// messages. Method: policy kinds of the test.

#include "placement/policies/built_in_policies.hpp"
#include "placement/policies/policy_registry.hpp"
#include "placement/policies/policy_text.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace vma {
namespace {

using Type = PolicyParameter::Type;

struct Known : Policy {
  explicit Known(PolicyValues its) : values(std::move(its)) {}
  PolicyValues values;
};

PolicyKind full_kind(const std::string& name = "full") {
  PolicyKind kind;
  kind.name = name;
  kind.parameters = {
      {"horizon", Type::duration, 2, 0.1, 60, "how far ahead"},
      {"threshold", Type::size, 1048576, 0, 1e12, "from which size on"},
      {"margin", Type::number, 1.25, 1, 10, "how much better"},
      {"uses", Type::count, 3, 1, 100, "how often"},
      {"peers", Type::flag, 1, 0, 1, "whether peers count"},
  };
  kind.make = [](const PolicyValues& values) -> std::unique_ptr<Policy> {
    return std::make_unique<Known>(values);
  };
  return kind;
}

PolicyValues values_of(const std::string& parameters) {
  return parse_policy_values(full_kind(), parameters);
}

std::string refusal(const std::string& text) {
  PolicyRegistry registry;
  registry.add(full_kind());
  registry.add(full_kind("another"));
  try {
    registry.make(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PolicyRegistry, MakesAPolicyWithItsDefaults) {
  PolicyRegistry registry;
  registry.add(full_kind());
  const auto policy = registry.make("full");
  const auto& values = dynamic_cast<Known&>(*policy).values;
  EXPECT_EQ(values.duration("horizon"), std::chrono::seconds(2));
  EXPECT_EQ(values["threshold"], 1048576);
  EXPECT_EQ(values["margin"], 1.25);
  EXPECT_EQ(values.count("uses"), 3u);
  EXPECT_TRUE(values.flag("peers"));
}

TEST(PolicyRegistry, ReadsEachTypeInItsUnits) {
  EXPECT_DOUBLE_EQ(values_of("horizon=3s")["horizon"], 3);
  EXPECT_DOUBLE_EQ(values_of("horizon=250ms")["horizon"], 0.25);
  EXPECT_DOUBLE_EQ(values_of("horizon=500000us")["horizon"], 0.5);
  EXPECT_DOUBLE_EQ(values_of("horizon=200000000ns")["horizon"], 0.2);
  EXPECT_DOUBLE_EQ(values_of("threshold=64MiB")["threshold"], 64 * 1048576.0);
  EXPECT_DOUBLE_EQ(values_of("threshold=1.5GiB")["threshold"], 1.5 * 1073741824.0);
  EXPECT_DOUBLE_EQ(values_of("threshold=4096")["threshold"], 4096);
  EXPECT_FALSE(values_of("peers=false").flag("peers"));
  const PolicyValues several = values_of("margin=2.5,uses=7,horizon=1s");
  EXPECT_EQ(several["margin"], 2.5);
  EXPECT_EQ(several.count("uses"), 7u);
  EXPECT_EQ(several["threshold"], 1048576) << "what is not named is as it was";
}

TEST(PolicyRegistry, ListsThePoliciesWhereOneIsUnknown) {
  EXPECT_TRUE(says(refusal("fulll:uses=2"),
                   "no policy 'fulll'; did you mean full? known are another, full"));
  EXPECT_TRUE(says(refusal(""), "names no policy"));
  EXPECT_TRUE(says(refusal(":uses=2"), "names no policy"));
}

TEST(PolicyRegistry, ListsTheParametersWhereOneIsWrong) {
  const std::string unknown = refusal("full:horizn=2s");
  EXPECT_TRUE(says(unknown, "no parameter 'horizn'"));
  EXPECT_TRUE(says(unknown, "horizon: duration, 100ms to 60s, default 2s: how far ahead"))
      << unknown;
  EXPECT_TRUE(says(unknown, "default 1MiB: from which size on")) << unknown;
  EXPECT_TRUE(says(unknown, "uses: count, 1 to 100, default 3: how often")) << unknown;
  EXPECT_TRUE(says(unknown, "peers: flag, default true: whether peers count")) << unknown;
  EXPECT_TRUE(says(refusal("full:uses"), "'uses' is not parameter=value"));
  EXPECT_TRUE(says(refusal("full:=2"), "'=2' is not parameter=value"));
  EXPECT_TRUE(says(refusal("full:uses=2,"), "missing after the last comma"));
  EXPECT_TRUE(says(refusal("full:uses=2,uses=3"), "'uses' is given twice"));
}

TEST(PolicyRegistry, RefusesValuesThatAreNone) {
  for (const char* text : {"horizon=2", "horizon=2m", "horizon=s", "horizon=", "horizon=nans",
                           "threshold=4MB", "threshold=1e999", "margin=1.5x", "margin=inf",
                           "margin= 2", "uses=2s", "peers=yes", "peers=2"}) {
    EXPECT_TRUE(says(refusal(std::string("full:") + text), " is not a ")) << text;
  }
  EXPECT_TRUE(says(refusal("full:uses=2.5"), "not a whole number"));
  for (const char* text :
       {"horizon=99ms", "horizon=61s", "margin=0.99", "uses=101", "threshold=-1"})
    EXPECT_TRUE(says(refusal(std::string("full:") + text), "out of bounds")) << text;
}

TEST(PolicyRegistry, RefusesKindsThatAreWrong) {
  const auto refused = [](const std::function<void(PolicyKind&)>& spoil) {
    PolicyRegistry registry;
    registry.add(full_kind("taken"));
    PolicyKind kind = full_kind();
    spoil(kind);
    EXPECT_THROW(registry.add(kind), Error);
  };
  refused([](PolicyKind& kind) { kind.name = "taken"; });
  refused([](PolicyKind& kind) { kind.name = "has:colon"; });
  refused([](PolicyKind& kind) { kind.name = ""; });
  refused([](PolicyKind& kind) { kind.make = nullptr; });
  refused([](PolicyKind& kind) { kind.parameters.push_back(kind.parameters.front()); });
  refused([](PolicyKind& kind) { kind.parameters.front().otherwise = 61; });
  refused([](PolicyKind& kind) {
    kind.parameters.front().otherwise = std::numeric_limits<double>::quiet_NaN();
  });
}

TEST(PolicyText, TellsNamesFromLibraries) {
  const auto parts = [](const std::string& text) {
    const PolicyText split = split_policy_text(text);
    return split.name + "|" + split.path + "|" + split.parameters;
  };
  EXPECT_EQ(parts("counter"), "counter||");
  EXPECT_EQ(parts("counter:a=1,b=2"), "counter||a=1,b=2");
  EXPECT_EQ(parts("/x/y.so"), "|/x/y.so|");
  EXPECT_EQ(parts("./y.so:a=1"), "|./y.so|a=1");
  EXPECT_EQ(parts("mine@/x:1/y@2.so:a=1"), "mine|/x:1/y@2.so|a=1");
  EXPECT_EQ(parts("/x@1/y.so"), "|/x@1/y.so|");
  EXPECT_THROW(split_policy_text("@/x/y.so"), Error);
}

TEST(PolicyText, TellsWhatGoesAround) {
  const auto parts = [](const std::string& text) {
    const PolicyText split = split_policy_text(text);
    std::string arounds;
    for (const std::string& around : split.arounds) arounds += around + "+";
    return arounds + "|" + split.name + "|" + split.path + "|" + split.parameters;
  };
  EXPECT_EQ(parts("guarded+counter"), "guarded+|counter||");
  EXPECT_EQ(parts("guarded+counter:a=1+1"), "guarded+|counter||a=1+1");
  EXPECT_EQ(parts("guarded+./y.so:a=1"), "guarded+||./y.so|a=1");
  EXPECT_EQ(parts("guarded+mine@/x+y.so"), "guarded+|mine|/x+y.so|");
  EXPECT_EQ(parts("guarded+repeating+mine@/x+y.so"), "guarded+repeating+|mine|/x+y.so|");
  EXPECT_EQ(parts("/x+y.so"), "||/x+y.so|");
  EXPECT_THROW(split_policy_text("+counter"), Error);
  EXPECT_THROW(split_policy_text("guarded+"), Error);
  EXPECT_THROW(split_policy_text("guarded++counter"), Error);
}

TEST(PolicyRegistry, PutsOnePolicyAroundAnother) {
  PolicyRegistry registry;
  registry.add(full_kind());
  const auto double_margin = [](PolicyKind inner) {
    inner.make = [make = inner.make](PolicyValues values) {
      values.set("margin", 2 * values["margin"]);
      return make(values);
    };
    return inner;
  };
  registry.add_around("twice", double_margin);
  const auto policy = registry.make("twice+full:margin=3");
  EXPECT_EQ(dynamic_cast<Known&>(*policy).values["margin"], 6);
  EXPECT_THROW(registry.add_around("twice", double_margin), Error);
  try {
    registry.make("thrice+full");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(says(error.what(), "no policy 'thrice' goes around another; known are twice"));
  }
}

TEST(BuiltInPolicies, CanBeMadeWithTheirDefaults) {
  for (const PolicyKind& kind : built_in_policies().kinds()) {
    SCOPED_TRACE(kind.name);
    EXPECT_NE(make_policy(kind.name), nullptr);
    EXPECT_FALSE(kind.source.empty()) << "it says where it comes from";
    for (const PolicyParameter& parameter : kind.parameters)
      EXPECT_FALSE(parameter.meaning.empty());
  }
}

}  // namespace
}  // namespace vma
