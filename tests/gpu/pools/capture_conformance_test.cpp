// Goal: pools keep what CUDA's guide states of allocation in captures and graphs. Method: as
// conformance_test.cpp, with graphs that are launched several times.
#include "gpu/pools/pool_test.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

template <typename Subject>
class PoolCaptureConformance : public PoolTest<Subject> {};
TYPED_TEST_SUITE(PoolCaptureConformance, PoolSubjects, PoolSubjectNames);

TYPED_TEST(PoolCaptureConformance, AnAddressOfACaptureIsThatOfEveryLaunch) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  void* result = on.allocate_plain(few_bytes, 0);
  on.begin_capture(stream);
  void* words = on.allocate(few_bytes, stream);
  on.fill(stream, words, few_words, 1);
  on.add(stream, words, few_words, 4);
  on.copy(stream, result, words, few_bytes);
  on.deallocate(words, stream);
  const ExecGraphHandle graph = on.end_capture(stream);
  for (int i = 0; i < 3; ++i) {
    on.fill(stream, result, few_words, 0);
    on.launch(stream, graph);
    expect_words(on, stream, result, 5);
  }
  on.destroy(graph);
  on.trim_graphs(0);
  on.free(result);
}

TYPED_TEST(PoolCaptureConformance, WhatACaptureFreesItReuses) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  on.begin_capture(stream);
  void* first = on.allocate(segment_bytes, stream);
  on.fill(stream, first, few_words, 1);
  on.deallocate(first, stream);
  void* second = on.allocate(segment_bytes, stream);
  EXPECT_EQ(second, first);
  on.deallocate(second, stream);
  const ExecGraphHandle graph = on.end_capture(stream);
  on.launch(stream, graph);
  on.synchronize(stream);
  on.destroy(graph);
  on.trim_graphs(0);
}

TYPED_TEST(PoolCaptureConformance, MemoryThatAGraphLeavesIsUsedAndFreedOutside) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  on.begin_capture(stream);
  void* words = on.allocate(few_bytes, stream);
  on.fill(stream, words, few_words, 5);
  const ExecGraphHandle graph = on.end_capture(stream);
  for (int i = 0; i < 3; ++i) {  // Each launch allocates it anew, at the same address.
    on.launch(stream, graph);
    on.add(stream, words, few_words, 1);
    expect_words(on, stream, words, 6);
    on.deallocate(words, stream);
  }
  on.synchronize(stream);
  on.destroy(graph);
  on.trim_graphs(0);
}

TYPED_TEST(PoolCaptureConformance, MemoryThatAGraphLeavesOutlivesIt) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  on.begin_capture(stream);
  void* words = on.allocate(few_bytes, stream);
  on.fill(stream, words, few_words, 2);
  const ExecGraphHandle graph = on.end_capture(stream);
  on.launch(stream, graph);
  on.synchronize(stream);
  on.destroy(graph);
  expect_words(on, stream, words, 2);
  on.deallocate(words, stream);
  on.synchronize(stream);
  on.trim_graphs(0);
}

TYPED_TEST(PoolCaptureConformance, AnOrdinaryFreeWorksForMemoryThatAGraphLeaves) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  on.begin_capture(stream);
  void* words = on.allocate(few_bytes, stream);
  on.fill(stream, words, few_words, 3);
  const ExecGraphHandle graph = on.end_capture(stream);
  on.launch(stream, graph);
  expect_words(on, stream, words, 3);
  on.free(words);
  on.destroy(graph);
  on.trim_graphs(0);
}

TYPED_TEST(PoolCaptureConformance, MemoryOfAGraphIsNotGivenToOthersWhileItRuns) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream(), other = on.new_stream();
  void* result = on.allocate_plain(few_bytes, 0);
  on.begin_capture(stream);
  void* words = on.allocate(few_bytes, stream);
  on.fill(stream, words, few_words, 1);
  on.copy(stream, result, words, few_bytes);
  on.deallocate(words, stream);
  const ExecGraphHandle graph = on.end_capture(stream);
  on.stop(stream);
  on.launch(stream, graph);  // Is about to run.
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(on.allocate(few_bytes, other));
    on.fill(other, blocks.back(), few_words, 100);
  }
  on.let_go(stream);
  expect_words(on, stream, result, 1);
  for (void* block : blocks) {
    expect_words(on, other, block, 100);
    on.deallocate(block, other);
  }
  on.synchronize(other);
  on.destroy(graph);
  on.trim_graphs(0);
  on.free(result);
}

}  // namespace
}  // namespace vma
