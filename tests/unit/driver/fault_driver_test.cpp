// Goal: a chosen call fails before it has any effect, the numbers count only calls that can fail,
// and all other calls pass through unchanged. Method: wraps a driver that only counts, and a
// simulated one.

#include "support/drivers/fault_driver.hpp"

#include "driver/native_codes.hpp"
#include "unit/driver/counting_driver.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

namespace vma {
namespace {

TEST(FaultDriver, FailsTheCallWithTheNumberAndNoOther) {
  CountingDriver inner;
  FaultDriver faults(inner);
  faults.fail_calls({1});
  EXPECT_NO_THROW(faults.reserve(4096, 0));
  EXPECT_THROW(faults.create(gpu(0), 4096), Error);
  EXPECT_NO_THROW(faults.create(gpu(0), 4096));
  EXPECT_EQ(faults.fired(), 1);
  EXPECT_EQ(faults.counted(), 3);
  EXPECT_EQ(inner.calls(Call::create), 1) << "the failed call did not reach the driver";
}

TEST(FaultDriver, QuestionsThatCannotFailAreNotCounted) {
  CountingDriver inner;
  FaultDriver faults(inner);
  faults.fail_calls({0});
  EXPECT_NO_THROW(faults.device_info(DeviceId{0}));
  EXPECT_NO_THROW(faults.current_context());
  EXPECT_NO_THROW(faults.can_access_peer(DeviceId{0}, DeviceId{0}));
  EXPECT_EQ(faults.counted(), 0);
  EXPECT_THROW(faults.unmap(Address{4096}, 4096), Error);
}

TEST(FaultDriver, ThrowsWhatTheRealCallWould) {
  CountingDriver inner;
  FaultDriver faults(inner);
  faults.fail_calls({0, 1});
  try {
    faults.create(gpu(0), 4096);
    ADD_FAILURE() << "not failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_EQ(error.native(), native_out_of_memory);
  }
  try {
    faults.unmap(Address{4096}, 4096);
    ADD_FAILURE() << "not failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::driver_failure);
  }
}

TEST(FaultDriver, ANewSetStartsANewCount) {
  CountingDriver inner;
  FaultDriver faults(inner);
  faults.fail_calls({0});
  EXPECT_THROW(faults.release(ChunkHandle{1}), Error);
  faults.fail_calls({0});
  EXPECT_EQ(faults.counted(), 0);
  EXPECT_EQ(faults.fired(), 0);
  EXPECT_THROW(faults.release(ChunkHandle{1}), Error);
}

TEST(FaultDriver, CountsOnlyWhatItWasLimitedTo) {
  CountingDriver inner;
  FaultDriver faults(inner);
  faults.count_only({Call::map, Call::grant});
  faults.fail_calls({1});
  EXPECT_NO_THROW(faults.reserve(4096, 0));
  EXPECT_NO_THROW(faults.map(Address{4096}, 4096, ChunkHandle{1}));
  EXPECT_NO_THROW(faults.unmap(Address{4096}, 4096));
  EXPECT_THROW(faults.grant(Address{4096}, 4096, {}), Error);
  EXPECT_EQ(faults.seen(), (std::vector<Call>{Call::map, Call::grant}));
}

TEST(FaultDriver, RemembersWhichCallsItEverFailed) {
  CountingDriver inner;
  FaultDriver faults(inner);
  faults.fail_calls({0});
  EXPECT_THROW(faults.release(ChunkHandle{1}), Error);
  faults.fail_calls({0});
  EXPECT_THROW(faults.reserve(4096, 0), Error);
  EXPECT_EQ(faults.failed(), (std::set<Call>{Call::release, Call::reserve}));
}

TEST(InterceptDriver, HandsResultsBackUnchanged) {
  const auto inner = SimulatedMachine::open();
  FaultDriver faults(*inner);
  const std::uint64_t page = faults.granularity(gpu(1));
  EXPECT_EQ(page, inner->granularity(gpu(1)));
  const Address begin = faults.reserve(page, 0);
  const ChunkHandle chunk = faults.create(gpu(1), page);
  inner->map(begin, page, chunk);
  EXPECT_EQ(faults.address_range(begin).begin, begin);
  EXPECT_EQ(faults.description(), inner->description());
  EXPECT_EQ(faults.device_count(), inner->device_count());
  EXPECT_EQ(faults.device_info(DeviceId{1}).name, inner->device_info(DeviceId{1}).name);
  inner->unmap(begin, page);
  inner->release(chunk);
  inner->unreserve(begin, page);
}

}  // namespace
}  // namespace vma
