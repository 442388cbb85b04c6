// Goal: what a gate keeps for a stream is never used for another: no chain of a destroyed context,
// and no word that another stream has yet to write. Method: plans with streams that need not exist,
// since only a stop asks the driver about them.
#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/gates/gate_rig.hpp"

#include <gtest/gtest.h>

#include <set>

namespace vma {
namespace {

/// Replaces each context by another one with the same handle, `renewals` times.
class RenewingDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  std::uint64_t context_id(ContextHandle context) override {
    return inner().context_id(context) + renewals;
  }
  std::uint64_t renewals = 0;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

TEST(GatePost, MakesAnotherChainWhereAnotherContextHasTheHandle) {
  GateRig rig;
  rig.attach_new(0);
  RenewingDriver driver(rig.driver());
  GatePost post(driver, rig.watchdog(), rig.memory().chunks().ledger());
  const GatePlan plan = rig.plan();
  rig.forget_calls();
  post.prepare(plan);
  post.prepare(plan);
  EXPECT_EQ(rig.calls(Call::make_chain), 1);
  // As it is with the old context.
  rig.machine().destroy_exec_graph(post.state_of(plan.stops[0]).chain);
  ++driver.renewals;
  post.prepare(plan);
  EXPECT_EQ(rig.calls(Call::make_chain), 2);
}

TEST(GatePost, HandsOnNoWordThatAStreamHasYetToWrite) {
  constexpr std::uint64_t streams = 1200;  // More than are kept.
  GateRig rig;
  GatePost& post = rig.post();
  const auto prepared = [&](std::uint64_t number) -> GatePost::StreamState& {
    GatePlan plan;
    plan.stops.push_back({{rig.context(0), StreamHandle{number}}, {}, false});
    post.prepare(plan);
    return post.state_of(plan.stops[0]);
  };
  GatePost::StreamState& late = prepared(1'000'000);
  late.asked = 1;  // Asked by a gate that was given up.
  const std::uint64_t* const pending = late.arrived;
  const std::uint64_t* const written = prepared(1'000'001).arrived;
  for (std::uint64_t i = 0; i < streams; ++i) prepared(2'000'000 + i);
  post.prune();
  std::set<const std::uint64_t*> words;
  for (std::uint64_t i = 0; i < streams; ++i) words.insert(prepared(3'000'000 + i).arrived);
  EXPECT_TRUE(words.contains(written));
  EXPECT_FALSE(words.contains(pending)) << "the late write would be another stream's arrival";
}

}  // namespace
}  // namespace vma
