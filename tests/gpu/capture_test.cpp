// Goal: whatever the runtime does on its own threads (moves, streams that come and go, frees), it
// ends no capture of the application and delays none.

#include "base/clock.hpp"
#include "gpu/gpu_test.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// Threads that each repeat one function until this goes out of scope.
class Company {
 public:
  ~Company() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  void add(std::function<void()> round) {
    threads_.emplace_back([this, round = std::move(round)] {
      while (!stop_) round();
    });
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

template <typename Machine>
class GpuCaptures : public GpuTest<Machine> {
 protected:
  BoundStream bound(Stream stream) {
    const StreamHandle handle{reinterpret_cast<std::uint64_t>(stream)};
    return {driver().stream_context(handle), handle};
  }
  Driver& driver() { return *parts_of(this->rig().runtime()).driver; }

  /// Returns how many of `count` captures were ended by something else.
  int ended(Stream stream, CaptureMode mode, int count) {
    const BoundStream captured = bound(stream);
    std::uint64_t* word = static_cast<std::uint64_t*>(
        driver().allocate_pinned(captured.context, sizeof(std::uint64_t)));
    const WordOperation write{WordOperation::Kind::write, address_of(word), 1};
    int ended = 0;
    for (int i = 0; i < count; ++i) {
      {
        const std::lock_guard begins(attach_or_begin_);
        driver().begin_capture(captured, mode);
      }
      try {
        for (int node = 0; node < 50; ++node) driver().batch(captured, {&write, 1});
      } catch (const Error&) {  // `end_capture` reports it.
      }
      try {
        driver().destroy_graph(driver().end_capture(captured));
      } catch (const Error&) {
        ++ended;
      }
    }
    driver().free_pinned(captured.context, word);
    return ended;
  }

  std::mutex attach_or_begin_;  // No capture may begin on a stream while it is being attached.
};
TYPED_TEST_SUITE(GpuCaptures, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuCaptures, OutliveMovesFreesAndStreamsThatComeAndGo) {
  GpuRig& rig = this->rig();
  Runtime& runtime = rig.runtime();
  const Stream captured = runtime.make_stream(gpu(0));
  const AttachedStream attached(runtime, rig.stream(0));
  Pattern moved(rig, gpu(0), 2);
  moved.fill(0, 5);
  std::atomic<int> moves{0}, attaches{0}, frees{0};
  {
    Company company;
    company.add([&, to = 1]() mutable {
      try {
        runtime.migrate_async(moved.pointer(), gpu(to)).wait();
        to = 1 - to;
        ++moves;
      } catch (const Error& error) {  // The stream captured too often.
        EXPECT_EQ(error.kind(), ErrorKind::busy) << error.what();
      }
    });
    company.add([&] {
      {
        const std::lock_guard attaches_now(this->attach_or_begin_);
        runtime.attach(captured);
      }
      ++attaches;
      runtime.detach(captured);
    });
    company.add([&] {
      runtime.free(runtime.alloc(gpu_chunk_bytes, gpu(0)));
      ++frees;
    });
    // Each thread must complete a call before the captures and between them. A move whose stream
    // captures repeatedly may end in `busy` until then.
    const auto all_go_on = [&] {
      const int moved_before = moves, attached_before = attaches, freed_before = frees;
      SteadyClock wall;
      return poll_until(wall, wall.now() + std::chrono::seconds(60), [&] {
        return moves > moved_before && attaches > attached_before && frees > freed_before;
      });
    };
    ASSERT_TRUE(all_go_on());
    constexpr int portion = 20;
    const int portions = this->on_gpus_or_simulated(200, 60) / portion;
    for (const CaptureMode mode :
         {CaptureMode::global, CaptureMode::thread_local_mode, CaptureMode::relaxed}) {
      SCOPED_TRACE(fmt::format("mode {}", static_cast<int>(mode)));
      for (int i = 0; i < portions; ++i) {
        EXPECT_EQ(this->ended(captured, mode, portion), 0);
        ASSERT_TRUE(all_go_on()) << moves << " moves, " << attaches << " attaches, " << frees
                                 << " frees";
      }
    }
  }
  moved.check();
  runtime.destroy_stream(captured);
}

TYPED_TEST(GpuCaptures, OfAnAttachedStreamRefuseAHoldAndOutliveIt) {
  GpuRig& rig = this->rig();
  Runtime& runtime = rig.runtime();
  const Stream captured = runtime.make_stream(gpu(0));
  const AttachedStream attached(runtime, captured);
  Pattern memory(rig, gpu(0), 1);
  memory.fill(0, 3);
  const BoundStream bound = this->bound(captured);
  this->driver().begin_capture(bound, CaptureMode::relaxed);
  try {
    runtime.migrate(memory.pointer(), gpu(1));
    ADD_FAILURE() << "it moved";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  }
  GraphHandle graph{};
  ASSERT_NO_THROW(graph = this->driver().end_capture(bound));
  this->driver().destroy_graph(graph);
  runtime.migrate(memory.pointer(), gpu(1));
  memory.check();
}

TYPED_TEST(GpuCaptures, AFreeEndsThoughWorkIsLaunchedAllTheTime) {
  GpuRig& rig = this->rig();
  Pattern memory(rig, gpu(0), 1);
  memory.fill(0, 1);
  Company company;
  company.add([&] {
    for (int i = 0; i < 8; ++i) memory.enqueue_add(0, 1);
    memory.synchronize(0);
  });
  for (int i = 0; i < 20; ++i) rig.runtime().free(rig.runtime().alloc(gpu_chunk_bytes, gpu(0)));
}

}  // namespace
}  // namespace vma
