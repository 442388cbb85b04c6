// Goal: an allocation may start with chunks at several places, each granted to the devices that
// reach its place; either everything is allocated or nothing. Method: FaultDriver makes each call
// fail in turn.
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

using Homes = std::vector<Place>;

Geometry cut(MemoryRig& rig, std::uint64_t pages, std::uint64_t chunk_pages) {
  return plan_geometry(pages * rig.page(), chunk_pages * rig.page(), gpu(0), rig.page());
}

std::shared_ptr<Allocation> alloc(MemoryRig& rig, std::uint64_t pages, std::uint64_t chunk_pages,
                                  const Homes& homes) {
  return rig.memory().alloc(cut(rig, pages, chunk_pages), homes, {});
}

Homes homes_of(const Allocation& allocation) {
  Homes homes;
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    homes.push_back(allocation.place(slot));
  }
  return homes;
}

TEST(Homes, ShowsEachChunkToThoseWhoReachItsOwnPlace) {
  MemoryRig rig("test-islands");
  const Homes places = rig.topology().places();
  Homes homes;
  for (std::size_t slot = 0; slot < 2 * places.size(); ++slot) {
    homes.push_back(places[slot / 2 % places.size()]);
  }
  homes.push_back(places[0]);
  const auto allocation = alloc(rig, 2 * homes.size(), 2, homes);
  EXPECT_EQ(homes_of(*allocation), homes);
  rig.expect_shown(*allocation);
  bool all_alike = true;
  for (const Place at : places) {
    all_alike =
        all_alike && rig.topology().readers(at).size() == rig.topology().readers(places[0]).size();
  }
  EXPECT_FALSE(all_alike) << "the machine tells right from wrong";
  rig.memory().chunks().slow_calls().await_empty();
  rig.memory().check_invariants();
  for (std::size_t slot = 0; slot < homes.size(); ++slot) {
    for (const DeviceId device : rig.topology().devices()) {
      const Place reader = gpu(index(device));
      if (rig.topology().reaches(device, homes[slot])) continue;
      EXPECT_EQ(rig.machine().access(allocation->slot_begin(slot), reader), Access::none);
    }
  }
}

TEST(Homes, GrantsARunAtOnePlaceInOneCall) {
  MemoryRig rig;
  rig.memory().chunks().reserve(gpu(0), 6 * rig.page(), rig.page());
  rig.memory().chunks().reserve(gpu(1), 6 * rig.page(), rig.page());
  rig.forget_calls();
  alloc(rig, 6, 1, {gpu(0), gpu(0), gpu(1), gpu(1), gpu(1), gpu(0)});
  EXPECT_EQ(rig.calls(Call::map), 6);
  EXPECT_EQ(rig.calls(Call::grant), 3);
}

TEST(Homes, WantsOneForEachChunk) {
  MemoryRig rig;
  for (const Homes& homes : {Homes{}, Homes{gpu(0)}, Homes(3, gpu(0))}) {
    expect_error(ErrorKind::invalid_argument, [&] { alloc(rig, 4, 2, homes); });
  }
  expect_error(ErrorKind::invalid_argument, [&] { alloc(rig, 4, 2, {gpu(0), gpu(7)}); });
  EXPECT_EQ(rig.memory().registry().size(), 0u);
}

TEST(Homes, TakesAFreedAllocationOverOnlyWhereAllLiesAtOnePlace) {
  MemoryRig rig;
  const auto first = rig.alloc(4, gpu(0), 2);
  const Address begin = first->begin();
  rig.free(first);
  const auto two = alloc(rig, 4, 2, {gpu(0), gpu(1)});
  EXPECT_EQ(homes_of(*two), (Homes{gpu(0), gpu(1)}));
  rig.expect_shown(*two);
  rig.free(two);
  EXPECT_EQ(rig.cached(gpu(0)), 4 * rig.page()) << "its chunks went to their places";
  EXPECT_EQ(rig.cached(gpu(1)), 2 * rig.page());
  rig.memory().chunks().trim(gpu(0));
  const auto third = rig.alloc(4, gpu(0), 2);
  const Address again = third->begin();
  rig.free(third);
  rig.forget_calls();
  EXPECT_EQ(alloc(rig, 4, 2, {gpu(0), gpu(0)})->begin(), again);
  EXPECT_EQ(rig.trace().size(), 0u);
  EXPECT_NE(begin, Address{});
  rig.memory().check_invariants();
}

TEST(Homes, RefusesWhatDoesNotFitAtOneOfThem) {
  MemoryLimits limits;
  limits.capacity_bytes[gpu(1)] = 4 * 4096;  // Includes the keeper and its spare.
  MemoryRig rig("test-2", limits);
  const Homes homes{gpu(0), gpu(1), gpu(1), gpu(1)};
  const Error error = expect_error(ErrorKind::out_of_memory, [&] { alloc(rig, 4, 1, homes); });
  EXPECT_TRUE(says(error, "gpu(1)")) << error.what();
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
  EXPECT_EQ(rig.account(gpu(1)).allocated_bytes, 0u);
  rig.memory().check_invariants();
}

TEST(Homes, LeavesNothingWhereAnyCallFails) {
  MemoryRig rig;
  const Homes homes{gpu(0), gpu(1), gpu(1), host(0), gpu(0)};
  for (int number = 0; number < 100; ++number) {
    SCOPED_TRACE(number);
    rig.fail({}, {number});
    std::shared_ptr<Allocation> allocation;
    try {
      allocation = alloc(rig, 9, 2, homes);
    } catch (const Error&) {
      EXPECT_EQ(rig.driver().fired(), 1);
    }
    const bool fired = rig.driver().fired() > 0;
    rig.fail_nothing();
    rig.memory().chunks().slow_calls().await_empty();
    rig.memory().check_invariants();
    if (allocation) {
      EXPECT_EQ(homes_of(*allocation), homes);
      rig.expect_shown(*allocation);
      rig.free(allocation);
    }
    EXPECT_EQ(rig.memory().registry().size(), 0u);
    for (const Place at : rig.topology().places()) {
      EXPECT_EQ(rig.account(at).allocated_bytes, 0u);
      rig.memory().chunks().trim(at);
    }
    if (!fired) {
      EXPECT_GT(number, 15) << "every call was failed once";
      break;
    }
  }
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
}

}  // namespace
}  // namespace vma
