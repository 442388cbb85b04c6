// Goal: moves that pay are made though the stall budget does not suffice, the decision log says so
// and what came of it. Method: a scheduler stepped by hand on a simulated machine, a tiny budget,
// and a policy that predicts much.

#include "unit/memory/memory_rig.hpp"
#include "unit/scheduling/logged_decisions.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace vma {
namespace {

constexpr std::uint32_t chunks = 64;

/// Wants each chunk at GPU 1, where it saves so much.
class WantsAllAtGpu1 : public Policy {
 public:
  explicit WantsAllAtGpu1(double value) : value_(value) {}
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    for (std::uint32_t i = 0; i < snapshot.chunks().size(); ++i) {
      const ChunkRow& row = snapshot.chunk(ChunkId{i});
      if (row.bytes > 0 && row.at != PlaceId{1} && !row.moving)
        plan.move(ChunkId{i}, PlaceId{1}, value_, "test");
    }
  }

 private:
  const double value_;
};

class StallAheadDecisions : public LoggedDecisions {
 protected:
  /// A runtime whose policy predicts `value` seconds for each chunk.
  void open(double value, std::chrono::milliseconds ahead) {
    RuntimeOptions options;
    options.stall_budget = std::chrono::microseconds(100);
    options.stall_ahead = ahead;
    LoggedDecisions::open(
        options, [value] { return std::make_unique<WantsAllAtGpu1>(value); }, chunks);
    rig_->pass(std::chrono::seconds(10));
  }
  std::size_t moved() {
    rig_->step();
    return rig_->runtime().scheduler_stats().moves_done;
  }
};

TEST_F(StallAheadDecisions, AreLoggedWhenMadeAndWhenJudged) {
  open(1000, std::chrono::seconds(100));
  EXPECT_EQ(moved(), chunks);
  rig_->pass(std::chrono::seconds(1));
  rig_->use(words_, chunks - 1, 1);  // One of those that the budget did not suffice for.
  rig_->step();
  const std::string text = log();
  EXPECT_NE(text.find("\"kind\":\"ahead\""), std::string::npos) << text;
  EXPECT_NE(text.find("more than the stall budget has; they are predicted to save"),
            std::string::npos);
  EXPECT_NE(text.find("\"kind\":\"ahead_judged\""), std::string::npos);
  EXPECT_NE(text.find("it paid; up to 10.0 ms may be spent ahead"), std::string::npos) << text;
}

TEST_F(StallAheadDecisions, SayWhenItDidNotPay) {
  open(1000, std::chrono::seconds(100));
  EXPECT_EQ(moved(), chunks);
  rig_->pass(std::chrono::seconds(3));
  rig_->step();
  EXPECT_NE(log().find("it did not pay; up to 2.5 ms may be spent ahead"), std::string::npos);
}

TEST_F(StallAheadDecisions, AreNotMadeIfThatIsOff) {
  open(1000, std::chrono::milliseconds(0));
  EXPECT_LT(moved(), chunks);
  const std::string text = log();
  EXPECT_EQ(text.find("\"kind\":\"ahead\""), std::string::npos);
  EXPECT_NE(text.find("stall_budget"), std::string::npos);
}

}  // namespace
}  // namespace vma
