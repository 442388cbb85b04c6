// Goal: a C program that registers memory by its place can follow every move. Method: hooks that
// keep a register of chunks by place, as NCCL or a network card would, which must be right after
// each kind of move and each failure.
#include "unit/abi/abi_rig.hpp"

#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t hooked_chunk_bytes = 8192;

std::string name_of(vmart_place at) {
  return to_string(at.kind == VMART_GPU ? gpu(at.ordinal) : host(at.ordinal));
}

/// What one hook was told, and the chunks that it has registered, by offset.
class Register {
 public:
  explicit Register(void* pointer) {
    for (const Extent& extent : where(pointer)) {
      for (std::size_t at = 0; at < extent.bytes; at += hooked_chunk_bytes) {
        places_[extent.offset + at] = to_string(extent.at);
      }
    }
    EXPECT_EQ(vmart_move_hook_create(pointer, &Register::call, this, &hook_), VMART_OK)
        << vmart_last_error();
  }
  ~Register() { release(); }
  Register(const Register&) = delete;
  Register& operator=(const Register&) = delete;

  void release() { vmart_move_hook_release(std::exchange(hook_, nullptr)); }
  /// Called first, for each event; if the result is false, the event is not done.
  std::function<bool(const vmart_move_event&)> instead;
  const std::vector<vmart_move_event>& told() const { return told_; }
  std::vector<int> phases() const {
    std::vector<int> phases;
    for (const vmart_move_event& event : told_) phases.push_back(event.phase);
    return phases;
  }
  /// Chunks that are registered where they do not lie, or not registered.
  std::size_t stale(const void* pointer) const {
    std::size_t wrong = 0, chunks = 0;
    for (const Extent& extent : where(pointer)) {
      if (extent.dropped) continue;
      for (std::size_t at = 0; at < extent.bytes; at += hooked_chunk_bytes) {
        const auto found = places_.find(extent.offset + at);
        wrong += found == places_.end() || found->second != to_string(extent.at);
        ++chunks;
      }
    }
    return wrong + (places_.size() > chunks ? places_.size() - chunks : 0);
  }

 private:
  static void call(vmart_move_event* event, void* user) {
    EXPECT_EQ(event->done, 0);
    if (static_cast<Register*>(user)->follow(*event)) event->done = 1;
  }
  bool follow(const vmart_move_event& event) {
    told_.push_back(event);
    EXPECT_EQ(event.size_bytes, sizeof event);
    if (instead && !instead(event)) return false;
    switch (event.phase) {
      case VMART_MOVE_BEGINS: places_.erase(event.offset); return true;
      case VMART_MOVE_DONE: return enter(event.offset, event.to);
      case VMART_MOVE_STAYED: return enter(event.offset, event.from);
      case VMART_MOVE_DROPPED: return true;
    }
    ADD_FAILURE() << "phase " << event.phase;
    return false;
  }
  bool enter(std::size_t offset, vmart_place at) {
    EXPECT_TRUE(places_.emplace(offset, name_of(at)).second) << "registered twice";
    return true;
  }

  vmart_move_hook* hook_ = nullptr;
  std::vector<vmart_move_event> told_;
  std::map<std::size_t, std::string> places_;
};

class MoveHook : public AbiTest {
  static_assert(hooked_chunk_bytes == chunk_bytes);

 protected:
  MoveHook() {
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_attach(stream(gpu)), VMART_OK);
  }
  ~MoveHook() override {
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_detach(stream(gpu)), VMART_OK);
  }
  static vmart_status move(void* pointer, vmart_place to) {
    return vmart_migrate(pointer, 0, 0, to, nullptr);
  }
  static vmart_status move_live(void* pointer, vmart_place to) {
    vmart_migration* migration = nullptr;
    EXPECT_EQ(vmart_migrate_async(pointer, 0, 0, to, nullptr, &migration), VMART_OK)
        << vmart_last_error();
    const vmart_status status = vmart_migration_wait(migration);
    vmart_migration_release(migration);
    return status;
  }
};

TEST_F(MoveHook, IsToldOfEachChunkBeforeAndAfterItMoves) {
  std::uint64_t* words = filled(2, 1);
  Register hook(words + 9);
  hook.instead = [&](const vmart_move_event& event) {
    const auto* chunk = static_cast<const char*>(event.pointer) + event.offset;
    EXPECT_EQ(home_of(chunk), name_of(event.phase == VMART_MOVE_BEGINS ? event.from : event.to));
    return true;
  };
  ASSERT_EQ(move(words, c_gpu(1)), VMART_OK) << vmart_last_error();
  ASSERT_EQ(hook.told().size(), 4u);
  std::map<std::size_t, std::vector<vmart_move_event>> by_offset;
  for (const vmart_move_event& event : hook.told()) by_offset[event.offset].push_back(event);
  ASSERT_EQ(by_offset.size(), 2u);
  for (const auto& [offset, events] : by_offset) {
    EXPECT_EQ(offset % chunk_bytes, 0u);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].phase, VMART_MOVE_BEGINS);
    EXPECT_EQ(events[1].phase, VMART_MOVE_DONE);
    EXPECT_GT(events[1].generation, events[0].generation);
    for (const vmart_move_event& event : events) {
      EXPECT_EQ(event.pointer, words);
      EXPECT_EQ(event.bytes, chunk_bytes);
      EXPECT_EQ(event.from.kind, VMART_GPU);
      EXPECT_EQ(event.from.ordinal, 0);
      EXPECT_EQ(event.to.ordinal, 1);
    }
  }
  EXPECT_EQ(move(words, c_host(0)), VMART_OK);
  EXPECT_EQ(hook.told().back().to.kind, VMART_HOST);
  EXPECT_EQ(wrong(words, 2, 1), 0u);
  vma::free(words);
}

TEST_F(MoveHook, KeepsARegisterRightThroughEveryKindOfMove) {
  std::uint64_t* words = filled(6, 1);
  Register hook(words);
  ASSERT_EQ(vmart_note_export(words), VMART_OK);
  for (const auto& moved : {&MoveHook::move, &MoveHook::move_live}) {
    for (const vmart_place to : {c_gpu(1), c_gpu(0), c_host(0), c_gpu(0)}) {
      if (moved == &MoveHook::move_live && to.kind == VMART_HOST) continue;
      EXPECT_EQ(moved(words, to), VMART_OK) << vmart_last_error();
      EXPECT_EQ(hook.stale(words), 0u);
    }
  }
  EXPECT_EQ(vmart_migrate(words, chunk_bytes, 2 * chunk_bytes, c_gpu(1), nullptr), VMART_OK);
  EXPECT_EQ(hook.stale(words), 0u) << "a part of it";
  vmart_move_request requests[2] = {
      {sizeof(vmart_move_request), words, 0, chunk_bytes, c_host(0)},
      {sizeof(vmart_move_request), words + 4 * chunk_bytes / 8, 0, chunk_bytes, c_gpu(1)}};
  EXPECT_EQ(vmart_migrate_many(requests, 2, nullptr, nullptr, nullptr), VMART_OK);
  EXPECT_EQ(hook.stale(words), 0u) << "several parts";
  EXPECT_EQ(wrong(words, 6, 1), 0u);
  vma::free(words);
}

TEST_F(MoveHook, KeepsARegisterRightWhenAMoveEndsEarly) {
  constexpr std::uint64_t chunks = second_gpu_bytes / chunk_bytes + 8;
  std::uint64_t* words = filled(chunks, 1);
  Register hook(words);
  for (const auto& moved : {&MoveHook::move, &MoveHook::move_live}) {
    EXPECT_EQ(moved(words, c_gpu(1)), VMART_OUT_OF_MEMORY);
    EXPECT_EQ(hook.stale(words), 0u);
  }
  EXPECT_EQ(move(words, c_gpu(0)), VMART_OK) << vmart_last_error();
  Register refuses(words);
  refuses.instead = [](const vmart_move_event& event) { return event.offset != 5 * chunk_bytes; };
  const auto moved_part = [&](auto moved) {
    EXPECT_EQ(moved(words, c_host(0)), VMART_CANCELLED);
    EXPECT_EQ(hook.stale(words), 0u);
    return where(words).size() > 1;
  };
  EXPECT_TRUE(moved_part(&MoveHook::move_live)) << "one after the other";
  EXPECT_EQ(move(words, c_gpu(0)), VMART_OK) << "the chunk lies there";
  moved_part(&MoveHook::move);
  EXPECT_EQ(wrong(words, chunks, 1), 0u);
  vma::free(words);
}

TEST_F(MoveHook, ThatRefusesKeepsTheChunkAndThoseBeforeItLearnOfIt) {
  std::uint64_t* words = filled(1, 1);
  Register first(words), second(words), third(words);
  second.instead = [](const vmart_move_event&) { return false; };
  for (const auto& moved : {&MoveHook::move, &MoveHook::move_live}) {
    EXPECT_EQ(moved(words, c_gpu(1)), VMART_CANCELLED);
    EXPECT_NE(std::string(vmart_last_error()).find("its callback did not set `done`"),
              std::string::npos)
        << vmart_last_error();
    EXPECT_EQ(home_of(words), "gpu(0)");
    EXPECT_EQ(first.stale(words), 0u);
  }
  EXPECT_EQ(first.phases(), (std::vector<int>{VMART_MOVE_BEGINS, VMART_MOVE_STAYED,
                                              VMART_MOVE_BEGINS, VMART_MOVE_STAYED}));
  EXPECT_EQ(second.phases(), (std::vector<int>{VMART_MOVE_BEGINS, VMART_MOVE_BEGINS}));
  EXPECT_TRUE(third.told().empty());
  vma::free(words);
}

TEST_F(MoveHook, ThatFailsAfterTheMoveIsCountedAndTheMoveStands) {
  std::uint64_t* words = filled(1, 1);
  const std::size_t failures = runtime().stats().callbacks_failed;
  Register first(words), second(words);
  first.instead = [](const vmart_move_event& event) { return event.phase == VMART_MOVE_BEGINS; };
  EXPECT_EQ(move(words, c_gpu(1)), VMART_OK) << vmart_last_error();
  EXPECT_EQ(runtime().stats().callbacks_failed, failures + 1);
  EXPECT_EQ(first.stale(words), 1u);
  EXPECT_EQ(second.stale(words), 0u);
  vma::free(words);
}

TEST_F(MoveHook, HearsThatTheMemoryWasDroppedAndOfTheNext) {
  void* pointer = nullptr;
  ASSERT_EQ(vmart_alloc_tagged(chunk_bytes, c_gpu(0), "dropped", &pointer), VMART_OK);
  Register hook(pointer);
  ASSERT_EQ(vmart_park_dropping("dropped", nullptr, nullptr, nullptr), VMART_OK)
      << vmart_last_error();
  EXPECT_EQ(hook.phases(), (std::vector<int>{VMART_MOVE_BEGINS, VMART_MOVE_DROPPED}));
  EXPECT_EQ(hook.stale(pointer), 0u);
  ASSERT_EQ(vmart_resume("dropped", nullptr, nullptr, nullptr), VMART_OK) << vmart_last_error();
  EXPECT_EQ(hook.phases().back(), VMART_MOVE_DONE);
  EXPECT_EQ(hook.stale(pointer), 0u);
  vma::free(pointer);
}

TEST_F(MoveHook, MayCallTheLibraryButNotMoveOrFreeTheSameMemory) {
  std::uint64_t* words = filled(1, 7);
  std::uint64_t* other = filled(1, 3);
  Register hook(words);
  hook.instead = [&](const vmart_move_event&) {
    std::uint64_t word = 0;
    EXPECT_EQ(vmart_read(other, &word, sizeof word), VMART_OK) << vmart_last_error();
    EXPECT_EQ(word, 3u);
    void* more = nullptr;
    EXPECT_EQ(vmart_alloc(chunk_bytes, c_gpu(0), &more), VMART_OK) << vmart_last_error();
    EXPECT_EQ(vmart_free(more), VMART_OK) << vmart_last_error();
    EXPECT_NE(vmart_free(words), VMART_OK);
    EXPECT_NE(move(words, c_host(0)), VMART_OK);
    return true;
  };
  EXPECT_EQ(move(words, c_gpu(1)), VMART_OK) << vmart_last_error();
  EXPECT_EQ(hook.phases(), (std::vector<int>{VMART_MOVE_BEGINS, VMART_MOVE_DONE}));
  EXPECT_EQ(wrong(words, 1, 7), 0u);
  vma::free(words);
  vma::free(other);
}

TEST_F(MoveHook, IsReleasedByItself) {
  std::uint64_t* words = filled(2, 1);
  auto hook = std::make_unique<Register>(words);
  hook->instead = [&](const vmart_move_event&) {
    hook->release();  // Waiting for itself would block for ever.
    return true;
  };
  EXPECT_EQ(move(words, c_gpu(1)), VMART_OK) << vmart_last_error();
  EXPECT_EQ(hook->told().size(), 1u);
  hook.reset();
  EXPECT_EQ(move(words, c_gpu(0)), VMART_OK);
  vma::free(words);
}

TEST_F(MoveHook, IsNotCalledOnceReleasedBesideAMove) {
  std::uint64_t* words = filled(6, 1);
  auto hook = std::make_unique<Register>(words);
  std::promise<void> inside;
  std::atomic<bool> released{false};
  hook->instead = [&, calls = 0](const vmart_move_event&) mutable {
    EXPECT_FALSE(released);
    if (++calls == 1) inside.set_value();
    return true;
  };
  ThreadedExecutor executor;
  const auto migrator = executor.spawn("migrator", [&] {
    for (int i = 0; !released || i < 2; ++i) {
      EXPECT_EQ(move(words, c_gpu(1 - i % 2)), VMART_OK) << vmart_last_error();
    }
  });
  inside.get_future().wait();
  hook->release();
  released = true;
  migrator->join();
  hook.reset();  // Its memory may go: a late call would be found by the sanitizers.
  vma::free(words);
}

TEST_F(MoveHook, OfABlockFollowsItsSegment) {
  vmart_pool* pool = nullptr;
  ASSERT_EQ(vmart_pool_create(c_gpu(0), "registered", nullptr, &pool), VMART_OK);
  void *block = nullptr, *second = nullptr;
  ASSERT_EQ(vmart_pool_allocate(pool, 600, 0, stream(0), &second), VMART_OK);
  ASSERT_EQ(vmart_pool_allocate(pool, 600, 0, stream(0), &block), VMART_OK);
  void* segment = nullptr;
  ASSERT_EQ(vmart_base(block, &segment, nullptr), VMART_OK);
  std::vector<vmart_move_event> told;
  vmart_move_hook* hook = nullptr;
  const vmart_move_callback note = [](vmart_move_event* event, void* user) {
    static_cast<std::vector<vmart_move_event>*>(user)->push_back(*event);
    event->done = 1;
  };
  ASSERT_EQ(vmart_move_hook_create(block, note, &told, &hook), VMART_OK) << vmart_last_error();
  ASSERT_EQ(vmart_note_export(block), VMART_OK);
  ASSERT_EQ(vmart_pool_migrate(pool, c_gpu(1), nullptr), VMART_OK) << vmart_last_error();
  ASSERT_GE(told.size(), 2u);
  const std::size_t offset = static_cast<char*>(block) - static_cast<char*>(segment);
  int of_block = 0;
  for (const vmart_move_event& event : told) {
    EXPECT_EQ(event.pointer, segment);
    of_block += event.offset <= offset && offset < event.offset + event.bytes;
  }
  EXPECT_EQ(of_block, 2);
  EXPECT_EQ(vmart_pool_deallocate(pool, block, stream(0)), VMART_OK);
  EXPECT_EQ(vmart_pool_deallocate(pool, second, stream(0)), VMART_OK);
  EXPECT_EQ(vmart_pool_destroy(pool), VMART_OK);
  EXPECT_EQ(vmart_pool_synchronize(pool), VMART_OK);
  vmart_move_hook_release(hook);  // Its segment has gone.
  vmart_pool_release(pool);
}

TEST_F(MoveHook, NullAndUnknownMemoryAreRefused) {
  std::uint64_t* words = filled(1, 1);
  const vmart_move_callback none = [](vmart_move_event*, void*) {};
  vmart_move_hook* hook = nullptr;
  EXPECT_EQ(vmart_move_hook_create(nullptr, none, nullptr, &hook), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_move_hook_create(words, nullptr, nullptr, &hook), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_move_hook_create(words, none, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_move_hook_create(&hook, none, nullptr, &hook), VMART_UNKNOWN_POINTER);
  EXPECT_EQ(hook, nullptr);
  vmart_move_hook_release(nullptr);
  vma::free(words);
}

}  // namespace
}  // namespace vma
