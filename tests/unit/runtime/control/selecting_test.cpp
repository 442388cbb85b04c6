// Goal: selectors of a control peer select allocations of a real runtime, once for a request, with
// the same outcome as naming the same allocations by address. Method: simulated machines, with the
// scheduler stepped by hand.
#include "runtime/runtime_control.hpp"

#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace vma {
namespace {

class SelectingTest : public testing::Test {
 protected:
  ControlTarget& control() { return parts_of(rig_.runtime()).machinery->scheduling->control(); }
  static std::vector<Selector> parsed(std::initializer_list<std::string> texts) {
    std::vector<Selector> what;
    for (const std::string& text : texts) what.push_back(parse_selector(text));
    return what;
  }
  static std::uint64_t number_of(const std::uint64_t* words) {
    return to_integer(address_of(words));
  }
  std::vector<std::uint64_t> select(std::initializer_list<std::string> texts) {
    std::vector<std::uint64_t> addresses;
    for (const auto& one : control().select(parsed(texts), 0, 1'000).allocations) {
      addresses.push_back(one.address);
    }
    return addresses;
  }
  static std::vector<std::uint64_t> numbers_of(std::initializer_list<std::uint64_t*> all) {
    std::vector<std::uint64_t> numbers;
    for (const std::uint64_t* words : all) numbers.push_back(number_of(words));
    std::ranges::sort(numbers);
    return numbers;
  }
  ErrorKind refusal(std::initializer_list<std::string> texts) {
    return kind_of_error([&] { control().start_move({parsed(texts), gpu(1)}); });
  }
  void move(std::initializer_list<std::string> texts, Place to) {
    const std::uint64_t operation = control().start_move({parsed(texts), to}).operation;
    EXPECT_TRUE(comes_true([&] {
      const auto events = control().events(0, 10'000).events;
      return std::ranges::any_of(events, [&](const ControlEvent& event) {
        return event.operation == operation && event.kind == ControlEvent::Kind::operation_done;
      });
    }));
  }

  SchedulerRig rig_{"counter"};
};

TEST_F(SelectingTest, SelectsBySizePlaceAndAge) {
  std::uint64_t *first = rig_.alloc(2, gpu(0)), *second = rig_.alloc(4, gpu(1)),
                *third = rig_.alloc(1, host(0)), *fourth = rig_.alloc(4, gpu(0));
  EXPECT_EQ(select({"all"}), numbers_of({first, second, third, fourth}));
  EXPECT_EQ(select({"largest:2"}), numbers_of({second, fourth}));
  EXPECT_EQ(select({"largest:1"}), std::vector{std::min(number_of(second), number_of(fourth))});
  EXPECT_EQ(select({"oldest:1"}), numbers_of({first}));
  EXPECT_EQ(select({"newest:2"}), numbers_of({third, fourth}));
  EXPECT_EQ(select({"at:gpu0"}), numbers_of({first, fourth}));
  EXPECT_EQ(select({"size:8KiB..16KiB"}), numbers_of({first, third}));
  EXPECT_EQ(select({std::to_string(number_of(second) + 9'000), "oldest:1"}),
            numbers_of({first, second}));
}

// The socket lists segments of pools and not their blocks, so an address names what is listed.
TEST_F(SelectingTest, AnAddressInABlockOfAPoolSelectsItsSegment) {
  const Pool pool = rig_.runtime().make_pool(gpu(0));
  auto* const first = static_cast<std::uint64_t*>(pool.allocate_now(1'000));
  auto* const second = static_cast<std::uint64_t*>(pool.allocate_now(1'000));
  const AllocationInfo segment = rig_.runtime().allocation(first);
  ASSERT_EQ(rig_.runtime().allocation(second).pointer, segment.pointer);
  const std::uint64_t begin = to_integer(address_of(segment.pointer));
  for (std::uint64_t* const inside : {first, second, second + 3}) {
    EXPECT_EQ(select({std::to_string(number_of(inside))}), std::vector{begin});
    move({std::to_string(number_of(inside))}, gpu(1));
    EXPECT_EQ(rig_.runtime().where(first).front().at, gpu(1));
    EXPECT_EQ(rig_.runtime().where(first).size(), 1u);
    rig_.runtime().migrate(segment.pointer, 0, segment.bytes, gpu(0));
  }
  pool.deallocate_now(first);
  pool.deallocate_now(second);
}

// The clock of the simulated machine may stand still between two allocations, and a freed one gives
// its memory to the next.
TEST_F(SelectingTest, TheAgeIsThatOfTheAllocationAndNotOfItsMemoryOrItsPlace) {
  std::uint64_t* first = rig_.alloc(2, gpu(0));
  std::uint64_t* second = rig_.alloc(2, gpu(0));
  rig_.runtime().free(first);
  std::uint64_t* third = rig_.alloc(2, gpu(0));
  EXPECT_EQ(third, first) << "it comes from the cache";
  EXPECT_EQ(select({"oldest:1"}), numbers_of({second}));
  move({std::to_string(number_of(second))}, gpu(1));
  EXPECT_EQ(select({"oldest:1"}), numbers_of({second}));
  EXPECT_EQ(select({"newest:1"}), numbers_of({third}));
}

TEST_F(SelectingTest, OneChunkAtAPlaceIsEnoughUnlessItIsDropped) {
  std::uint64_t* split = rig_.alloc(3, gpu(0), "split");
  rig_.runtime()
      .migrate_async(split, SchedulerRig::chunk_bytes, SchedulerRig::chunk_bytes, gpu(1))
      .wait();
  EXPECT_EQ(select({"at:gpu0"}), numbers_of({split}));
  EXPECT_EQ(select({"at:gpu1"}), numbers_of({split}));
  EXPECT_EQ(refusal({"at:host0"}), ErrorKind::invalid_argument);
  ParkOptions dropping;
  dropping.contents = ParkContents::drop;
  rig_.runtime().park("split", dropping);
  EXPECT_EQ(refusal({"at:gpu0"}), ErrorKind::invalid_argument);
  EXPECT_EQ(select({"all"}), numbers_of({split}));
}

TEST_F(SelectingTest, MovesWhatIsSelectedAndNamesIt) {
  std::uint64_t *small = rig_.alloc(1, gpu(0)), *large = rig_.alloc(3, gpu(0), "weights");
  const ControlMove largest{parsed({"largest:1"}), gpu(1)};
  for (const ControlSelection& selected :
       {control().predict(largest).selected, control().start_move(largest).selected}) {
    EXPECT_EQ(selected.count, 1u);
    EXPECT_EQ(selected.bytes, 3 * SchedulerRig::chunk_bytes);
    ASSERT_EQ(selected.first.size(), 1u);
    EXPECT_EQ(selected.first[0].address, number_of(large));
    EXPECT_EQ(selected.first[0].tag, "weights");
  }
  EXPECT_TRUE(comes_true([&] {
    return rig_.runtime().where(large).front().at == gpu(1) &&
           rig_.runtime().where(large).size() == 1;
  }));
  EXPECT_EQ(rig_.place(small), gpu(0));
}

TEST_F(SelectingTest, NamesTheFirstOfManyAndCountsAll) {
  constexpr std::uint64_t many = ControlSelection::first_max + 8;
  for (std::uint64_t i = 0; i < many; ++i) rig_.alloc(1, gpu(0));
  const ControlPage page = control().select(parsed({"all"}), 0, 3);
  EXPECT_EQ(page.selected.count, many);
  EXPECT_EQ(page.selected.bytes, many * SchedulerRig::chunk_bytes);
  EXPECT_EQ(page.selected.first.size(), ControlSelection::first_max);
  EXPECT_EQ(page.allocations.size(), 3u);
  EXPECT_TRUE(page.more);
  const std::uint64_t third = page.allocations.back().address;
  const ControlPage rest = control().select(parsed({"all"}), third + 1, many);
  EXPECT_EQ(rest.allocations.size(), many - 3);
  EXPECT_GT(rest.allocations.front().address, third);
  EXPECT_FALSE(rest.more);
}

TEST_F(SelectingTest, WhatMayNotMoveIsRefusedAsByItsAddress) {
  std::uint64_t *pinned = rig_.alloc(2, gpu(0)), *other = rig_.alloc(1, gpu(0));
  {
    const Pin pin = rig_.runtime().pin(pinned);
    EXPECT_EQ(refusal({std::to_string(number_of(pinned))}), ErrorKind::pinned);
    for (const char* text : {"all", "largest:1", "oldest:1", "at:gpu0", "size:16KiB.."}) {
      EXPECT_EQ(refusal({text}), ErrorKind::pinned) << text;
    }
    EXPECT_EQ(rig_.place(other), gpu(0)) << "nothing moves";
  }
  move({"all"}, gpu(1));
  EXPECT_EQ(rig_.place(pinned), gpu(1));
  EXPECT_EQ(rig_.place(other), gpu(1));
}

TEST_F(SelectingTest, RefusesAPlaceThatTheMachineDoesNotHave) {
  rig_.alloc(1, gpu(0));
  const std::string why = error_text([&] { select({"at:gpu7"}); });
  EXPECT_NE(why.find("gpu(7) is not a place of this runtime"), std::string::npos) << why;
}

}  // namespace
}  // namespace vma
