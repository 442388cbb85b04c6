// Goal: streams run their work in order and concurrently with each other, and stop where a GPU's
// streams would. Method: kernels that leave marks, words in pinned memory that stop streams, sticky
// faults.
#include "driver/native_codes.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vma {
namespace {

std::uint64_t load(std::uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

TEST(SimStream, WorkOfOneStreamRunsInOrder) {
  SimRig rig;
  const auto memory = rig.allocate(gpu(0), rig.page());
  for (std::uint64_t i = 0; i < 20; ++i) {
    rig.launch(rig.stream(0), [&, i](DeviceView& view) {
      const auto seen = i == 0 ? 0 : view.load(memory.words());
      if (seen != i) throw std::runtime_error("out of order");
      view.store(memory.words(), i + 1);
    });
  }
  rig.finish(rig.stream(0));
  EXPECT_EQ(rig.word_at(0, memory.address), 20u);
}

TEST(SimStream, StreamsRunBesideEachOther) {
  SimRig rig;
  std::uint64_t* first = rig.new_word();
  std::uint64_t* second = rig.new_word();
  const BoundStream other = rig.new_stream(0);
  // Each waits for a word that the other one writes: they finish only if they run concurrently.
  rig.batch_wait(rig.stream(0), first, 1);
  rig.batch_write(rig.stream(0), second, 1);
  rig.batch_write(other, first, 1);
  rig.batch_wait(other, second, 1);
  rig.finish(rig.stream(0));
  rig.finish(other);
}

TEST(SimStream, AnEventOrdersStreamsOfTwoGpus) {
  SimRig rig;
  std::uint64_t* gate = rig.new_word();
  const auto memory = rig.allocate(gpu(0), rig.page());
  rig.set_word(0, memory.address, 0);
  const EventHandle event = rig.new_event(0);
  rig.batch_wait(rig.stream(0), gate, 1);
  rig.launch(rig.stream(0),
             [&](DeviceView& view) { view.store(memory.words(), std::uint64_t{7}); });
  rig.driver().record(event, rig.stream(0));
  rig.driver().stream_wait_event(rig.stream(1), event);
  std::atomic<std::uint64_t> seen{0};
  rig.launch(rig.stream(1), [&](DeviceView& view) { seen = view.load(memory.words()); });
  EXPECT_FALSE(rig.driver().query_stream(rig.stream(1)));
  EXPECT_FALSE(rig.driver().query_event(event));
  store(gate, 1);
  EXPECT_TRUE(rig.driver().wait_event(event, never));
  rig.finish(rig.stream(1));
  EXPECT_EQ(seen, 7u);
}

TEST(SimStream, AnEventThatWasNeverRecordedIsDone) {
  SimRig rig;
  const EventHandle event = rig.new_event(0);
  EXPECT_TRUE(rig.driver().query_event(event));
  rig.driver().stream_wait_event(rig.stream(1), event);
  rig.finish(rig.stream(1));
}

TEST(SimStream, LegacyAndBlockingStreamsOrderEachOther) {
  SimRig rig;
  std::uint64_t* gate = rig.new_word();
  std::uint64_t* mark = rig.new_word();
  const BoundStream blocking = rig.new_stream(0, StreamKind::blocking);
  const BoundStream legacy{rig.context(0), {}};
  rig.batch_wait(legacy, gate, 1);
  rig.batch_write(blocking, mark, 1);
  rig.batch_write(rig.stream(0), mark + 0, 0);  // Non-blocking, so it keeps running.
  rig.finish(rig.stream(0));
  EXPECT_FALSE(rig.driver().query_stream(blocking));
  EXPECT_EQ(load(mark), 0u);
  store(gate, 1);
  rig.finish(blocking);
  EXPECT_EQ(load(mark), 1u);
  rig.batch_wait(blocking, gate, 2);
  rig.batch_write(legacy, mark, 2);
  EXPECT_FALSE(rig.driver().query_stream(legacy));
  store(gate, 2);
  rig.finish(legacy);
  EXPECT_EQ(load(mark), 2u);
}

TEST(SimStream, StoppedStreamsHoldTheQueuesAndCopiesBetweenGpusGoOn) {
  SimRig rig;
  const int queues = rig.driver().device_info(DeviceId{0}).max_queues;
  std::uint64_t* gate = rig.new_word();
  std::vector<std::uint64_t*> arrived;
  std::vector<BoundStream> stopped;
  for (int i = 0; i < queues + 3; ++i) {
    stopped.push_back(rig.new_stream(0));
    arrived.push_back(rig.new_word());
    const WordOperation stop[] = {{WordOperation::Kind::write, address_of(arrived.back()), 1},
                                  {WordOperation::Kind::wait_until_at_least, address_of(gate), 1}};
    rig.driver().batch(stopped.back(), stop);
  }
  const auto here = rig.allocate(gpu(0), rig.page()), there = rig.allocate(gpu(1), rig.page());
  std::atomic<bool> ran{false};
  rig.launch(rig.stream(0), [&](DeviceView&) { ran = true; });
  EXPECT_FALSE(rig.driver().query_stream(rig.stream(0)));
  const BoundStream copies = rig.new_stream(0);
  rig.driver().copy(copies, there.address, here.address, rig.page());
  EXPECT_TRUE(rig.driver().wait_stream(copies, never));
  rig.launch(rig.stream(1), [](DeviceView&) {});
  rig.finish(rig.stream(1));  // Another context has its own queues.
  int standing = 0;
  for (std::uint64_t* word : arrived) standing += static_cast<int>(load(word));
  EXPECT_EQ(standing, queues);
  EXPECT_FALSE(ran);
  store(gate, 1);
  rig.finish(rig.stream(0));
  EXPECT_TRUE(ran);
}

TEST(SimStream, ATouchWithoutAccessIsStickyOnAllGpus) {
  SimRig rig;
  const auto memory = rig.allocate(gpu(0), rig.page());
  const Accessor revoked{gpu(1), Access::none};
  rig.driver().grant(memory.address, rig.page(), {&revoked, 1});
  rig.launch(rig.stream(1), [&](DeviceView& view) { view.load(memory.words()); });
  EXPECT_EQ(native_of([&] { rig.finish(rig.stream(1)); }), native_illegal_address);
  EXPECT_EQ(native_of([&] { rig.driver().query_stream(rig.stream(1)); }), native_illegal_address);
  EXPECT_EQ(native_of([&] { rig.launch(rig.stream(0), [](DeviceView&) {}); }),
            native_illegal_address);
  rig.give_back(memory);  // Memory calls still work.
}

TEST(SimStream, AFaultFreesWhoWaitsForAStoppedStream) {
  SimRig rig;
  std::uint64_t* gate = rig.new_word();
  const BoundStream stopped = rig.new_stream(0);
  rig.batch_wait(stopped, gate, 1);
  std::atomic<int> waited{0};
  std::thread waiter([&] { waited = native_of([&] { rig.finish(stopped); }); });
  rig.launch(rig.stream(0), [](DeviceView& view) { view.load(static_cast<const int*>(nullptr)); });
  waiter.join();
  EXPECT_EQ(waited, native_illegal_address);
}

TEST(SimStream, WorkOnUnmappedMemoryIsRefusedAtOnceOrFaultsWhenItRuns) {
  SimRig rig;
  const Address begin = rig.driver().reserve(rig.page(), 0);
  EXPECT_EQ(native_of([&] { rig.word_at(0, begin); }), native_invalid_value);
  const auto memory = rig.allocate(gpu(0), rig.page());
  std::uint64_t* gate = rig.new_word();
  rig.batch_wait(rig.stream(0), gate, 1);
  rig.driver().copy(rig.stream(0), memory.address, memory.address + 64, 64);
  rig.driver().unmap(memory.address, rig.page());
  store(gate, 1);
  EXPECT_EQ(native_of([&] { rig.finish(rig.stream(0)); }), native_illegal_address);
}

TEST(SimStream, AKernelMayOnlyReadWhatItMayOnlyRead) {
  SimRig rig;
  const auto memory = rig.allocate(gpu(0), rig.page());
  const Accessor read_only{gpu(0), Access::read};
  rig.driver().grant(memory.address, rig.page(), {&read_only, 1});
  rig.launch(rig.stream(0), [&](DeviceView& view) { view.load(memory.words()); });
  rig.finish(rig.stream(0));
  rig.launch(rig.stream(0),
             [&](DeviceView& view) { view.store(memory.words(), std::uint64_t{1}); });
  EXPECT_EQ(native_of([&] { rig.finish(rig.stream(0)); }), native_illegal_address);
}

TEST(SimStream, ADestroyedStreamFinishesItsWork) {
  SimRig rig;
  std::uint64_t* gate = rig.new_word();
  std::uint64_t* mark = rig.new_word();
  const BoundStream stream = rig.new_stream(0);
  rig.batch_wait(stream, gate, 1);
  rig.batch_write(stream, mark, 1);
  rig.driver().destroy_stream(stream);
  EXPECT_EQ(native_of([&] { rig.finish(stream); }), native_invalid_handle);
  EXPECT_EQ(load(mark), 0u);
  store(gate, 1);
  rig.driver().synchronize_context(rig.context(0));
  EXPECT_EQ(load(mark), 1u);
}

TEST(SimStream, TheOwnStreamOfAThreadIsAnotherOnEachThread) {
  SimRig rig;
  const BoundStream own{rig.context(0), StreamHandle{2}};
  const std::uint64_t mine = rig.driver().stream_id(own);
  EXPECT_EQ(rig.driver().stream_id(own), mine);
  std::uint64_t other = 0;
  std::thread([&] { other = rig.driver().stream_id(own); }).join();
  EXPECT_NE(other, mine);
}

TEST(SimStream, CopiesReachTheOrdinaryMemoryOfOtherDevicesAndKernelsDoNot) {
  SimRig rig;
  const Address plain = rig.driver().allocate_plain(rig.context(1), 64);
  rig.set_word(0, plain, 9);
  EXPECT_EQ(rig.word_at(0, plain), 9u);
  rig.launch(rig.stream(0), [&](DeviceView& view) {
    view.load(static_cast<const std::uint64_t*>(to_pointer(plain)));
  });
  EXPECT_EQ(native_of([&] { rig.finish(rig.stream(0)); }), native_illegal_address);
}

TEST(SimStream, ADestroyedHandleIsRefusedByEveryQuestion) {
  SimRig rig;
  Driver& driver = rig.driver();
  const BoundStream gone = rig.new_stream(0);
  std::uint64_t* word = rig.new_word();
  driver.destroy_stream(gone);
  EXPECT_EQ(native_of([&] { driver.stream_id(gone); }), native_invalid_handle);
  EXPECT_EQ(native_of([&] { driver.stream_kind(gone); }), native_invalid_handle);
  EXPECT_EQ(native_of([&] { driver.stream_context(gone.handle); }), native_invalid_handle);
  EXPECT_EQ(native_of([&] { driver.is_capturing(gone); }), native_invalid_handle);
  EXPECT_EQ(native_of([&] { driver.query_stream(gone); }), native_invalid_handle);
  EXPECT_EQ(native_of([&] { rig.batch_write(gone, word, 1); }), native_invalid_handle);
  EXPECT_EQ(*word, 0u);
}

TEST(SimStream, AHundredStreamsStandAndGoOn) {
  SimRig rig;
  std::uint64_t* gate = rig.new_word();
  std::vector<BoundStream> streams;
  for (int i = 0; i < 100; ++i) {
    streams.push_back(rig.new_stream(i % 2));
    rig.batch_wait(streams.back(), gate, 1);
    EXPECT_FALSE(rig.driver().query_stream(streams.back()));
  }
  store(gate, 1);
  for (const BoundStream stream : streams) rig.finish(stream);
}

TEST(SimStream, AtomicAddsOfManyStreamsAllCount) {
  SimRig rig;
  const auto memory = rig.allocate(gpu(0), rig.page());
  rig.set_word(0, memory.address, 0);
  std::vector<BoundStream> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(rig.new_stream(i % 2));
  for (const BoundStream stream : streams) {
    rig.launch(stream, [&](DeviceView& view) {
      for (int i = 0; i < 1000; ++i) view.atomic_add(memory.words(), 1);
    });
  }
  for (const BoundStream stream : streams) rig.finish(stream);
  EXPECT_EQ(rig.word_at(1, memory.address), 8000u);
}

}  // namespace
}  // namespace vma
