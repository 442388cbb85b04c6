// Goal: a use that a launch shows reaches to where the next thing begins in its allocation, as far
// as launches have shown, and counts its bytes once; what is known of others stays as it is.
#include "telemetry/known_starts.hpp"
#include "telemetry/use_summary.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t small_page = 4096;

LoggedUse launched(Address address) {
  return {address, 0, DeviceId{0}, UseKind::unknown};
}

class KnownStartsTest : public testing::Test {
 protected:
  ~KnownStartsTest() override {
    if (allocation_) rig_.free(allocation_);
  }
  std::vector<LoggedUse> complete(std::vector<LoggedUse> uses, TimePoint at = TimePoint(0)) {
    starts_.complete(uses, at);
    return uses;
  }
  /// The bytes of uses at these offsets, which come together.
  std::vector<std::uint64_t> bytes(const std::vector<std::uint64_t>& offsets,
                                   TimePoint at = TimePoint(0)) {
    std::vector<LoggedUse> uses;
    for (const std::uint64_t offset : offsets) uses.push_back(launched(begin_ + offset));
    std::vector<std::uint64_t> bytes;
    for (const LoggedUse& use : complete(std::move(uses), at)) bytes.push_back(use.bytes);
    return bytes;
  }
  using Bytes = std::vector<std::uint64_t>;

  MemoryRig rig_;
  std::shared_ptr<Allocation> allocation_ = rig_.alloc(8, gpu(0), 2);
  Address begin_ = allocation_->begin();
  KnownStarts starts_{rig_.memory().registry()};
};

TEST_F(KnownStartsTest, AUseReachesToTheNextStartThatWasSeen) {
  EXPECT_EQ(bytes({small_page}), Bytes{7 * small_page}) << "to the end";
  EXPECT_EQ(bytes({0}), Bytes{small_page}) << "another use has begun there before";
  EXPECT_EQ(bytes({small_page, 3 * small_page + 512, small_page}),
            (Bytes{2 * small_page + 512, 4 * small_page + 3584, 2 * small_page + 512}))
      << "uses that come together tell of each other, in any order";
  EXPECT_EQ(bytes({8 * small_page - 1}), Bytes{1});
}

TEST_F(KnownStartsTest, OfUnknownDirectionBytesCountOnce) {
  const LoggedUse use = complete({launched(begin_)}).front();
  EXPECT_EQ(use.kind, UseKind::read_write);
  EXPECT_EQ(use.passes, 0.5f);
  EXPECT_TRUE(use.guessed);
  LoggedUse many = launched(begin_);
  many.passes = 20;  // Of a graph.
  many.weight = 4;
  many = complete({many}).front();
  EXPECT_EQ(many.passes, 10);
  EXPECT_EQ(many.weight, 4u);
  const LoggedUse reads = complete({{begin_, 0, DeviceId{0}, UseKind::read}}).front();
  EXPECT_EQ(reads.kind, UseKind::read);
  EXPECT_EQ(reads.passes, 1);
  EXPECT_TRUE(reads.guessed) << "its extent";
  const LoggedUse sized = complete({{begin_, 100, DeviceId{0}, UseKind::unknown}}).front();
  EXPECT_EQ(sized.bytes, 100u);
  EXPECT_TRUE(sized.guessed) << "its direction";
}

TEST_F(KnownStartsTest, WhatIsKnownStaysAndTeachesNothing) {
  const LoggedUse given{begin_ + small_page, small_page, DeviceId{0}, UseKind::write, 3, 2,
                        TimePoint(5)};
  const LoggedUse use = complete({given}).front();
  EXPECT_EQ(use.bytes, small_page);
  EXPECT_EQ(use.kind, UseKind::write);
  EXPECT_EQ(use.passes, 3);
  EXPECT_FALSE(use.guessed);
  EXPECT_EQ(bytes({0}), Bytes{8 * small_page}) << "a piece of a copy is no start";
}

TEST_F(KnownStartsTest, StartsAreForgottenWithTheirAllocation) {
  bytes({small_page, 2 * small_page});
  rig_.free(allocation_);
  EXPECT_EQ(bytes({small_page}), Bytes{0}) << "in no allocation";
  starts_.forget(begin_);
  allocation_ = rig_.alloc(8, gpu(1), 2);
  begin_ = allocation_->begin();
  EXPECT_EQ(bytes({0}), Bytes{8 * small_page});
}

TEST_F(KnownStartsTest, WithoutAnAllocationAUseIsUnknown) {
  const auto uses = complete({launched(Address{small_page})});
  UseSummary summary(rig_.memory().registry(), rig_.topology());
  summary.add(uses);
  EXPECT_EQ(summary.ignored().unknown_uses, 1u);
  EXPECT_EQ(summary.ignored().bad_uses, 0u);
}

TEST_F(KnownStartsTest, ThoseSeenLatelyReplaceOthersWhereThereAreTooMany) {
  constexpr std::chrono::seconds much_later(10);
  Bytes offsets;
  for (std::uint64_t i = 1; i <= 64; ++i) offsets.push_back(32 * i);
  bytes(offsets);
  EXPECT_EQ(bytes({small_page, 6 * small_page}), (Bytes{7 * small_page, 2 * small_page}))
      << "there is no room for more";
  EXPECT_EQ(bytes({32, 6 * small_page}, much_later), (Bytes{6 * small_page - 32, 2 * small_page}));
  EXPECT_EQ(bytes({0}, much_later), Bytes{32}) << "seen lately";
}

}  // namespace
}  // namespace vma
