// Goal: the pool keeps what PyTorch's allocator relies on: it returns null if there is no room, no
// work uses memory that it hands out again, and captures are not disturbed.
#include "unit/abi/abi_rig.hpp"

#include "support/test_kernels.hpp"

#include <vma/vmart_torch.h>

#include <atomic>
#include <thread>

namespace vma {
namespace {

constexpr std::uint64_t segment_bytes = 64 << 10;
constexpr std::uint64_t segment_words = segment_bytes / 8;

class TorchPool : public AbiTest {
 protected:
  std::uint64_t* segment(int gpu = 0) {
    return static_cast<std::uint64_t*>(vmart_torch_malloc(segment_bytes, gpu, stream(gpu)));
  }
  void give_back(void* pointer) { vmart_torch_free(pointer, segment_bytes, 0, stream(0)); }
  void enqueue_fill(Stream stream, std::uint64_t* words, std::uint64_t seed) {
    launch(stream, fill_kernel(), {}, {}, KernelArguments::of(words, segment_words, seed));
  }
};

TEST_F(TorchPool, GivesSegmentsOnTheGpuAsked) {
  std::uint64_t* first = segment(0);
  std::uint64_t* second = segment(1);
  EXPECT_EQ(home_of(first), "gpu(0)");
  EXPECT_EQ(home_of(second + segment_words - 1), "gpu(1)");
  give_back(first);
  give_back(second);
  vmart_torch_free(nullptr, 0, 0, nullptr);
}

TEST_F(TorchPool, NullMeansNoRoomNoBytesOrNoSuchGpu) {
  EXPECT_EQ(vmart_torch_malloc(0, 0, stream(0)), nullptr);
  EXPECT_EQ(vmart_torch_malloc(second_gpu_bytes + 1, 1, stream(1)), nullptr);
  EXPECT_NE(std::string(vmart_last_error()).find("out_of_memory"), std::string::npos);
  EXPECT_EQ(vmart_torch_malloc(8, 9, stream(1)), nullptr);
  EXPECT_NE(std::string(vmart_last_error()).find("invalid_argument"), std::string::npos);
}

TEST_F(TorchPool, AFreeWaitsForWorkOnStreamsThatItIsNotToldOf) {
  const ContextHandle primary = driver().retain_primary(DeviceId{0});
  auto* gate = static_cast<std::uint64_t*>(driver().allocate_pinned(primary, 8));
  std::uint64_t* words = segment();
  // The first launch of a kernel waits for its context; do that now.
  enqueue_fill(stream(1), words, 1);
  synchronize(stream(1));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(gate), 1};
  driver().batch(bound(stream(1)), {&wait, 1});
  enqueue_fill(stream(1), words, 2);  // As the replay of a graph would.
  std::atomic<bool> opened{false};
  std::thread freer([&] {
    give_back(words);
    EXPECT_TRUE(opened);
  });
  const auto free_has_begun = [&] {
    try {
      static_cast<void>(on_move(words, {[](const MoveEvent&) {}, {}}));
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  Poll poll;
  while (!free_has_begun()) poll.pause();
  opened = true;
  std::atomic_ref(*gate).store(1);
  freer.join();
  synchronize(stream(1));
  EXPECT_FALSE(is_allocated(words));
  driver().free_pinned(primary, gate);
  driver().release_primary(DeviceId{0});
}

TEST_F(TorchPool, ASegmentGivenDuringCaptureLeavesTheCaptureWhole) {
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::relaxed}) {
    driver().begin_capture(bound(stream(0)), mode);
    std::uint64_t* words = segment();
    ASSERT_NE(words, nullptr) << vmart_last_error();
    enqueue_fill(stream(0), words, 5);
    const GraphHandle graph = driver().end_capture(bound(stream(0)));
    driver().destroy_graph(graph);
    give_back(words);
    EXPECT_FALSE(is_allocated(words));
  }
}

TEST_F(TorchPool, WhatIsFreedOnTheStreamThatCapturesStaysForTheGraph) {
  std::uint64_t* words = segment();
  driver().begin_capture(bound(stream(0)), CaptureMode::global);
  enqueue_fill(stream(0), words, 5);
  give_back(words);
  const GraphHandle graph = driver().end_capture(bound(stream(0)));
  give_back(segment());  // A later free does not reclaim the captured segment.
  ASSERT_TRUE(is_allocated(words));
  const ExecGraphHandle replay = driver().instantiate(graph);
  driver().launch_graph(bound(stream(0)), replay);
  synchronize(stream(0));
  std::uint64_t last = 0;
  vma::read(words + segment_words - 1, std::as_writable_bytes(std::span(&last, 1)));
  EXPECT_EQ(last, 5 + segment_words - 1);
  driver().destroy_exec_graph(replay);
  driver().destroy_graph(graph);
  vma::free(words);
}

TEST_F(TorchPool, WhatIsFreedWhileAnAttachedStreamCapturesGoesWithTheNextFree) {
  std::uint64_t* words = segment();
  const AttachedStream attached(stream(1));
  driver().begin_capture(bound(stream(1)), CaptureMode::global);
  give_back(words);
  EXPECT_TRUE(is_allocated(words));
  driver().destroy_graph(driver().end_capture(bound(stream(1))));
  give_back(segment());
  EXPECT_FALSE(is_allocated(words));
}

TEST_F(TorchPool, ABlockingStreamThatCapturesIsSeenThoughNobodyNamesIt) {
  std::uint64_t* words = segment();
  const ContextHandle primary = driver().retain_primary(DeviceId{0});
  const BoundStream blocking = driver().create_stream(primary, StreamKind::blocking);
  driver().begin_capture(blocking, CaptureMode::relaxed);
  give_back(words);
  EXPECT_TRUE(is_allocated(words));
  driver().destroy_graph(driver().end_capture(blocking));
  give_back(segment());
  EXPECT_FALSE(is_allocated(words));
  driver().destroy_stream(blocking);
  driver().release_primary(DeviceId{0});
}

TEST_F(TorchPool, ARefusedFreeIsTriedAgainByTheNext) {
  std::uint64_t* words = segment();
  {
    const Pin pin = vma::pin(words);
    give_back(words);
    EXPECT_TRUE(is_allocated(words));
  }
  give_back(segment());
  EXPECT_FALSE(is_allocated(words));
}

TEST_F(TorchPool, AFullPlaceBringsBackWhatWasFreedTooEarly) {
  void* all = vmart_torch_malloc(second_gpu_bytes / 2, 1, stream(1));
  ASSERT_NE(all, nullptr) << vmart_last_error();
  {
    const Pin pin = vma::pin(all);
    vmart_torch_free(all, second_gpu_bytes / 2, 1, stream(1));
  }
  void* again = vmart_torch_malloc(second_gpu_bytes * 3 / 4, 1, stream(1));
  EXPECT_NE(again, nullptr) << vmart_last_error();
  vmart_torch_free(again, second_gpu_bytes * 3 / 4, 1, stream(1));
}

// What `vmart.torch.memory` relies on: options of the thread, which nest.
class TorchSegmentOptions : public TorchPool {
 protected:
  static vmart_torch_segment_options named(const char* tag) {
    vmart_torch_segment_options options{};
    options.size_bytes = sizeof options;
    options.tag = tag;
    return options;
  }
  static vmart_torch_segment_options at(vmart_place where) {
    vmart_torch_segment_options options = named("elsewhere");
    options.elsewhere = 1;
    options.at = where;
    return options;
  }
  std::string tag_of_new() {
    void* made = segment();
    const std::string tag = runtime().allocation(made).tag;
    give_back(made);
    return tag;
  }
  std::string home_of_new(std::size_t bytes = segment_bytes) {
    void* made = vmart_torch_malloc(bytes, 0, stream(0));
    const std::string home = home_of(made);
    give_back(made);
    return home;
  }
};

TEST_F(TorchSegmentOptions, NestAndBelongToTheThread) {
  const auto outer = named("outer");
  const auto inner = named("inner");
  ASSERT_EQ(vmart_torch_segments_begin(&outer), VMART_OK);
  ASSERT_EQ(vmart_torch_segments_begin(&inner), VMART_OK);
  EXPECT_EQ(tag_of_new(), "inner");
  std::thread([&] {
    EXPECT_EQ(tag_of_new(), "torch");
    EXPECT_EQ(vmart_torch_segments_end(), VMART_INVALID_ARGUMENT);
  }).join();
  ASSERT_EQ(vmart_torch_segments_end(), VMART_OK);
  EXPECT_EQ(tag_of_new(), "outer");
  ASSERT_EQ(vmart_torch_segments_end(), VMART_OK);
  EXPECT_EQ(tag_of_new(), "torch");
  EXPECT_EQ(vmart_torch_segments_end(), VMART_INVALID_ARGUMENT);
}

TEST_F(TorchSegmentOptions, SayWhereSegmentsLieAlsoBySize) {
  auto options = at(c_gpu(1));
  options.large_bytes = segment_bytes + 1;
  options.large_at = c_host(0);
  ASSERT_EQ(vmart_torch_segments_begin(&options), VMART_OK);
  EXPECT_EQ(home_of_new(), "gpu(1)");
  EXPECT_EQ(home_of_new(segment_bytes + 1), "host(0)");
  options.elsewhere = 0;
  ASSERT_EQ(vmart_torch_segments_begin(&options), VMART_OK);
  EXPECT_EQ(home_of_new(), "gpu(0)");
  ASSERT_EQ(vmart_torch_segments_end(), VMART_OK);
  ASSERT_EQ(vmart_torch_segments_end(), VMART_OK);
}

TEST_F(TorchSegmentOptions, SayHowMuchMovesAsAWhole) {
  auto options = named("fine");
  options.chunk_bytes = chunk_bytes;
  ASSERT_EQ(vmart_torch_segments_begin(&options), VMART_OK);
  void* made = segment();
  EXPECT_EQ(runtime().allocation(made).chunk_bytes, chunk_bytes);
  give_back(made);
  ASSERT_EQ(vmart_torch_segments_end(), VMART_OK);
}

TEST_F(TorchSegmentOptions, AreRefusedWithoutEffect) {
  const auto refused = [](const auto& spoil) {
    vmart_torch_segment_options options = named("refused");
    spoil(options);
    EXPECT_EQ(vmart_torch_segments_begin(&options), VMART_INVALID_ARGUMENT);
  };
  refused([](auto& options) { options.size_bytes = 0; });
  refused([](auto& options) { options.reserved = 1; });
  refused([](auto& options) {
    options.elsewhere = 1;
    options.at.kind = 7;
  });
  refused([](auto& options) {
    options.large_bytes = 1;
    options.large_at.kind = 7;
  });
  EXPECT_EQ(vmart_torch_segments_begin(nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_torch_segments_end(), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(tag_of_new(), "torch");
}

TEST_F(TorchSegmentOptions, AnUnknownPlaceFailsWhereMemoryIsRequested) {
  const auto options = at(c_gpu(9));
  ASSERT_EQ(vmart_torch_segments_begin(&options), VMART_OK);
  EXPECT_EQ(segment(), nullptr);
  EXPECT_NE(std::string(vmart_last_error()).find("invalid_argument"), std::string::npos);
  ASSERT_EQ(vmart_torch_segments_end(), VMART_OK);
}

class TorchTensors : public TorchPool {
 protected:
  std::uint64_t* tensor(std::size_t bytes = 4096) {
    return static_cast<std::uint64_t*>(vmart_torch_malloc_async(bytes, 0, stream(0)));
  }
  void free_tensor(void* pointer) { vmart_torch_free_async(pointer, 0, 0, stream(0)); }
  std::size_t used_bytes() { return default_pool(gpu(0)).stats().used_bytes; }
};

TEST_F(TorchTensors, AreBlocksThatAreFreedInTheOrderOfTheirStream) {
  const ContextHandle primary = driver().retain_primary(DeviceId{0});
  auto* gate = static_cast<std::uint64_t*>(driver().allocate_pinned(primary, 8));
  std::uint64_t* first = tensor();
  std::uint64_t* second = tensor(100);
  EXPECT_EQ(home_of(first), "gpu(0)");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 256, 0u);
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(gate), 1};
  driver().batch(bound(stream(0)), {&wait, 1});
  free_tensor(first);  // Does not wait for the stream.
  EXPECT_EQ(tensor(), first) << "the same stream reuses it at once";
  std::atomic_ref(*gate).store(1);
  free_tensor(first);
  free_tensor(second);
  EXPECT_EQ(used_bytes(), 0u);
  synchronize(stream(0));
  driver().free_pinned(primary, gate);
  driver().release_primary(DeviceId{0});
  vmart_torch_free_async(nullptr, 0, 0, nullptr);
}

TEST_F(TorchTensors, NullMeansNoRoomOrNoBytes) {
  EXPECT_EQ(vmart_torch_malloc_async(0, 0, stream(0)), nullptr);
  EXPECT_EQ(vmart_torch_malloc_async(second_gpu_bytes + 1, 1, stream(1)), nullptr);
  EXPECT_NE(std::string(vmart_last_error()).find("out_of_memory"), std::string::npos);
}

TEST_F(TorchTensors, FromBeforeACaptureAreFreedAfterIt) {
  std::uint64_t* before = tensor();
  driver().begin_capture(bound(stream(0)), CaptureMode::global);
  std::uint64_t* inside = tensor();
  ASSERT_NE(inside, nullptr) << vmart_last_error();
  const std::size_t used = used_bytes();
  free_tensor(before);
  free_tensor(inside);
  EXPECT_EQ(used_bytes(), used) << "both may be used by the graph";
  driver().destroy_graph(driver().end_capture(bound(stream(0))));
  free_tensor(tensor());
  default_pool(gpu(0)).trim(0);  // Gives up what was the graph's.
  EXPECT_EQ(used_bytes(), 0u);
}

// PyTorch frees tensors of any GPU while another one is current.
TEST_F(TorchTensors, TheDefaultStreamIsThatOfTheirGpu) {
  const ContextHandle first = driver().retain_primary(DeviceId{0});
  const ContextHandle second = driver().retain_primary(DeviceId{1});
  auto* gate = static_cast<std::uint64_t*>(driver().allocate_pinned(second, 8));
  driver().set_current_context(first);
  void* tensor = vmart_torch_malloc_async(64 << 10, 1, nullptr);
  ASSERT_NE(tensor, nullptr) << vmart_last_error();
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(gate), 1};
  driver().batch({second, StreamHandle{1}}, {&wait, 1});
  vmart_torch_free_async(tensor, 64 << 10, 1, nullptr);
  EXPECT_EQ(driver().current_context(), first);
  void* other = vmart_torch_malloc_async(64 << 10, 1, stream(1));
  EXPECT_NE(other, tensor) << "work of the second GPU's default stream may still use it";
  std::atomic_ref(*gate).store(1);
  vmart_torch_free_async(other, 64 << 10, 1, stream(1));
  driver().synchronize_context(second);
  driver().set_current_context({});
  default_pool(gpu(1)).synchronize();
  driver().free_pinned(second, gate);
  for (const int device : {0, 1}) driver().release_primary(DeviceId{device});
}

TEST_F(TorchPool, APointerOfSomebodyElseIsLoggedAndForgotten) {
  int foreign = 0;
  give_back(&foreign);
  vmart_torch_free_async(&foreign, 0, 0, stream(0));
  give_back(segment());
}

}  // namespace
}  // namespace vma
