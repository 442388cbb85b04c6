// Goal: a program can pass its own policies to its runtime: they are found by name along with the
// built-in ones, made with their parameters, and replaced by a new instance if one does not answer.

#include "unit/runtime/scoped_variable.hpp"
#include "unit/runtime/service_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

namespace vma {
namespace {

/// What the policies of a test leave behind. Shared with threads that may never end.
struct Trail {
  std::atomic<int> made{0};
  std::atomic<double> weight{0};  // Of the last one that was made.
  std::atomic<int> ticks{0};      // Completed ones.
  std::atomic<bool> held{false};  // While set, the first instance does not answer.
};

class Own : public Policy {
 public:
  Own(std::shared_ptr<Trail> trail, double weight)
      : trail_(std::move(trail)), number_(trail_->made++) {
    trail_->weight = weight;
  }
  void on_tick(const Snapshot&, Plan&) override {
    if (number_ == 0) trail_->held.wait(true);
    ++trail_->ticks;
  }

 private:
  const std::shared_ptr<Trail> trail_;
  const int number_;
};

PolicyKind kind_of(const std::shared_ptr<Trail>& trail, const std::string& name = "own") {
  PolicyKind kind;
  kind.name = name;
  kind.parameters = {{"weight", PolicyParameter::Type::number, 1, 0, 10, "of it"}};
  kind.make = [trail](const PolicyValues& values) {
    return std::make_unique<Own>(trail, values["weight"]);
  };
  return kind;
}

RuntimeOptions with(std::vector<PolicyKind> kinds, const std::string& policy) {
  RuntimeOptions options;
  options.policies = std::move(kinds);
  options.policy = policy;
  return options;
}

std::string refusal(const RuntimeOptions& options) {
  try {
    ServiceRig rig("test-2", options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << options.policy << " was taken";
  return "";
}

TEST(OwnPolicy, DecidesWithItsParameters) {
  const auto trail = std::make_shared<Trail>();
  ServiceRig rig("test-2", with({kind_of(trail)}, "own:weight=3"));
  rig.runtime().step_scheduler();
  EXPECT_EQ(rig.runtime().policy(), "own:weight=3");
  EXPECT_EQ(trail->made, 1);
  EXPECT_EQ(trail->weight, 3);
  EXPECT_GE(trail->ticks, 1);
}

TEST(OwnPolicy, TakesTheirTurnsWithTheBuiltInOnes) {
  const auto first = std::make_shared<Trail>(), second = std::make_shared<Trail>();
  ServiceRig rig("test-2", with({kind_of(first), kind_of(second, "other")}, "stay_put"));
  EXPECT_EQ(first->made, 0);
  rig.runtime().set_policy("other:weight=2");
  rig.runtime().step_scheduler();
  EXPECT_EQ(first->made, 0);
  EXPECT_EQ(second->weight, 2);
  EXPECT_GE(second->ticks, 1);
  rig.runtime().set_policy("cost_benefit");
  EXPECT_EQ(rig.runtime().policy(), "cost_benefit");
}

TEST(OwnPolicy, IsListedWhereANameIsUnknown) {
  const auto trail = std::make_shared<Trail>();
  const std::string why = refusal(with({kind_of(trail)}, "owm"));
  EXPECT_NE(why.find("there is no policy 'owm'"), std::string::npos) << why;
  EXPECT_NE(why.find(", own,"), std::string::npos) << why;
  EXPECT_NE(why.find("cost_benefit"), std::string::npos) << why;
}

TEST(OwnPolicy, IsRefusedWithTheNameOfAnotherOrNothingThatMakesIt) {
  const auto trail = std::make_shared<Trail>();
  EXPECT_NE(refusal(with({kind_of(trail, "stay_put")}, "stay_put")).find("two policies stay_put"),
            std::string::npos);
  PolicyKind empty = kind_of(trail);
  empty.make = {};
  EXPECT_NE(refusal(with({empty}, "own")).find("own cannot be made"), std::string::npos);
}

TEST(OwnPolicy, IsMadeAnewWhenItDoesNotAnswer) {
  // Enough for the second instance to answer.
  const ScopedVariable limit("VMART_POLICY_LIMIT_MS", "5000");
  const auto trail = std::make_shared<Trail>();
  trail->held = true;
  {
    ServiceRig rig("test-2", with({kind_of(trail)}, "own"));
    rig.runtime().step_scheduler();
    rig.runtime().step_scheduler();
    EXPECT_EQ(trail->made, 2);
    EXPECT_GE(trail->ticks, 1);
    EXPECT_EQ(rig.runtime().scheduler_stats().policy_failures, 1u);
    EXPECT_EQ(rig.runtime().policy(), "own");
  }
  trail->held = false;  // Lets the abandoned instance end.
  trail->held.notify_all();
}

}  // namespace
}  // namespace vma
