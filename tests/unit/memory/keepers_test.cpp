// Goal: keepers make later grants cheap, by the simulated machine's clock; spares are given up
// once; a probe asks the driver, and a rehearsal switches a slot that nobody uses.
#include "unit/memory/memory_rig.hpp"

#include "base/units.hpp"
#include "support/drivers/intercept_driver.hpp"
#include "machine/machine_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace vma {
namespace {

TEST(Keepers, MakeEveryLaterGrantCheap) {
  constexpr std::uint64_t size_bytes = 64 * MiB;
  SimDriver bare(load_machine("h200x2"));
  const Address begin = bare.reserve(size_bytes, 0);
  const ChunkHandle chunk = bare.create(gpu(0), size_bytes);
  bare.map(begin, size_bytes, chunk);
  const Accessor both[] = {{gpu(0), Access::read_write}, {gpu(1), Access::read_write}};
  const TimePoint start = bare.clock().now();
  bare.grant(begin, size_bytes, both);
  const TimePoint without = bare.clock().now() - start;
  bare.unmap(begin, size_bytes);
  bare.release(chunk);
  bare.unreserve(begin, size_bytes);

  MemoryRig rig("h200x2");
  rig.forget_calls();
  const auto allocation = rig.memory().alloc(size_bytes, gpu(0), {});
  TimePoint slowest{0};
  for (const TracedCall& call : rig.trace()) {
    if (call.call == Call::grant) slowest = std::max(slowest, call.duration);
  }
  EXPECT_GT(slowest, TimePoint(0));
  EXPECT_LT(5 * slowest, without) << "a grant beside keepers takes " << slowest.count()
                                  << " ns, alone " << without.count();
  rig.free(allocation);
}

TEST(Keepers, AreBookedAsTheRuntimesOwn) {
  MemoryRig rig("test-4");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rig.account(gpu(i)).own_bytes, 2 * rig.page());
  EXPECT_EQ(rig.account(host(0)).own_bytes, 0u);
  rig.close();
}

TEST(Keepers, GiveTheirSparesUpOnce) {
  MemoryRig rig;
  EXPECT_TRUE(rig.memory().chunks().keepers().give_up_spares());
  EXPECT_EQ(rig.account(gpu(0)).own_bytes, rig.page()) << "the keeper itself stays";
  EXPECT_EQ(rig.account(gpu(1)).own_bytes, rig.page());
  rig.forget_calls();
  EXPECT_FALSE(rig.memory().chunks().keepers().give_up_spares());
  EXPECT_TRUE(rig.trace().empty());
  const auto allocation = rig.alloc(1, gpu(0));
  rig.expect_shown(*allocation);
}

TEST(Keepers, ProbeAsksTheDriverOnceEachTime) {
  MemoryRig rig;
  for (int i = 0; i < 4; ++i) {
    rig.forget_calls();
    rig.memory().chunks().keepers().probe_grant();
    EXPECT_EQ(rig.calls(Call::grant), 1);
    EXPECT_EQ(rig.trace().size(), 1u);
  }
  rig.fail({Call::grant}, {0});
  expect_error(ErrorKind::out_of_memory, [&] { rig.memory().chunks().keepers().probe_grant(); });
  rig.fail_nothing();
  rig.memory().chunks().keepers().probe_grant();
}

std::vector<Call> calls_of_rehearsal(MemoryRig& rig) {
  rig.forget_calls();
  rig.memory().chunks().keepers().rehearse_switch();
  std::vector<Call> calls;
  for (const TracedCall& call : rig.trace()) calls.push_back(call.call);
  return calls;
}

TEST(Keepers, RehearseAWholeSwitchOfNobodysSlot) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  const std::vector<Call> whole{Call::unmap, Call::map, Call::grant};
  EXPECT_EQ(calls_of_rehearsal(rig), whole);
  EXPECT_EQ(calls_of_rehearsal(rig), whole);
  rig.expect_shown(*allocation);
}

TEST(Keepers, RehearseAgainAfterARefusal) {
  MemoryRig rig;
  const std::vector<Call> whole{Call::unmap, Call::map, Call::grant};
  rig.fail({Call::unmap}, {0});
  EXPECT_EQ(calls_of_rehearsal(rig), std::vector<Call>());
  EXPECT_EQ(calls_of_rehearsal(rig), whole);
  rig.fail({Call::map}, {0});
  EXPECT_EQ(calls_of_rehearsal(rig), std::vector<Call>{Call::unmap});
  EXPECT_EQ(calls_of_rehearsal(rig), (std::vector<Call>{Call::map, Call::grant}));
  rig.fail({Call::grant}, {0});
  EXPECT_EQ(calls_of_rehearsal(rig), (std::vector<Call>{Call::unmap, Call::map}));
  EXPECT_EQ(calls_of_rehearsal(rig), whole);
}

/// Remembers the rights granted last and counts repeated grants.
class RightsDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  void grant(Address begin, std::uint64_t size_bytes,
             std::span<const Accessor> accessors) override {
    for (const Accessor& right : accessors) {
      if (granted[right.who] == right.access) ++repeated;
      granted[right.who] = right.access;
    }
    InterceptDriver::grant(begin, size_bytes, accessors);
  }
  std::map<Place, std::optional<Access>> granted;
  int repeated = 0;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

// A driver could notice that a grant changes nothing and return at once, even while it blocks all
// other grants.
TEST(Keepers, AskForOtherRightsEachTime) {
  MemoryRig rig;
  RightsDriver driver(rig.driver());
  const Topology one = Topology::discover(driver, std::vector{0});
  Ledger ledger;
  for (const Place at : one.places()) ledger.open(at, UINT64_MAX);
  Keepers keepers(driver, one, ledger);
  // The keeper's rights; the last grant went to its spare.
  driver.granted[gpu(0)] = Access::read_write;
  driver.repeated = 0;
  for (int i = 0; i < 4; ++i) keepers.probe_grant();
  EXPECT_EQ(driver.repeated, 0);
}

TEST(Keepers, NeedRoomWithinTheCapacity) {
  MemoryLimits limits;
  limits.capacity_bytes[gpu(1)] = 4096;  // One granule, where two are needed.
  const Error error =
      expect_error(ErrorKind::out_of_memory, [&] { MemoryRig rig("test-2", limits); });
  EXPECT_TRUE(says(error, "gpu(1)"));
}

TEST(Keepers, LeaveNothingBehindWhereTheyCannotBeHad) {
  SimDriver machine(load_machine("test-2"));
  const Topology topology = Topology::discover(machine, {});
  for (int number = 0; number < 4; ++number) {
    for (const Call call : {Call::create, Call::reserve, Call::map, Call::grant}) {
      FaultDriver faults(machine);
      faults.count_only({call});
      faults.fail_calls({number});
      expect_error(ErrorKind::out_of_memory, [&] { Memory(faults, topology, {}); });
      EXPECT_EQ(machine.leaks(), std::vector<std::string>()) << to_string(call) << " " << number;
    }
  }
}

}  // namespace
}  // namespace vma
