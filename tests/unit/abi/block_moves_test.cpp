// Goal: every call that moves memory means the same bytes by the same pointer, wherever the pointer
// lies: in an allocation or in a block of a pool, at its start or inside. Method: each call of C
// and of C++ moves each of several blocks of one segment; which chunks move must not depend on the
// call.
#include "unit/abi/abi_rig.hpp"

#include <vma/pool.hpp>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace vma {
namespace {

vmart_migrate_options held() {
  vmart_migrate_options options{};
  options.size_bytes = sizeof options;
  options.scope = VMART_SCOPE_HOLD;
  return options;
}

/// A way to move memory: throws what it fails with.
struct Door {
  std::string name;
  std::function<void(void* pointer, std::size_t offset, std::size_t bytes, Place to)> move;
};

vmart_place c_place(Place at) {
  return at.kind == Place::Kind::gpu ? c_gpu(at.ordinal) : c_host(at.ordinal);
}

void expect_ok(vmart_status status) {
  if (status == VMART_OK) return;
  const ErrorKind kind = status == VMART_UNKNOWN_POINTER    ? ErrorKind::unknown_pointer
                         : status == VMART_INVALID_ARGUMENT ? ErrorKind::invalid_argument
                                                            : ErrorKind::driver_failure;
  throw Error(kind, "C", vmart_last_error());
}

std::vector<Door> doors() {
  const MigrateOptions hold{.scope = StopScope::hold};
  std::vector<Door> doors;
  for (const bool attached : {false, true}) {
    const std::string way = attached ? ", at gates" : ", held";
    const auto options = [=] {
      vmart_migrate_options options = held();
      if (attached) options.scope = VMART_SCOPE_ATTACHED;
      return options;
    };
    doors.push_back({"vmart_migrate" + way,
                     [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
                       const vmart_migrate_options how = options();
                       expect_ok(vmart_migrate(pointer, offset, bytes, c_place(to), &how));
                     }});
    doors.push_back(
        {"vmart_migrate_async" + way,
         [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
           const vmart_migrate_options how = options();
           vmart_migration* migration = nullptr;
           expect_ok(vmart_migrate_async(pointer, offset, bytes, c_place(to), &how, &migration));
           expect_ok(vmart_migration_wait(migration));
           vmart_migration_release(migration);
         }});
    doors.push_back(
        {"vmart_migrate_many" + way,
         [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
           const vmart_migrate_options how = options();
           const vmart_move_request request{sizeof request, pointer, offset, bytes, c_place(to)};
           expect_ok(vmart_migrate_many(&request, 1, &how, nullptr, nullptr));
         }});
    doors.push_back(
        {"vmart_migrate_many_async" + way,
         [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
           const vmart_migrate_options how = options();
           const vmart_move_request request{sizeof request, pointer, offset, bytes, c_place(to)};
           vmart_migration_group* group = nullptr;
           expect_ok(vmart_migrate_many_async(&request, 1, &how, &group));
           expect_ok(vmart_migration_group_wait(group));
           vmart_migration_group_release(group);
         }});
    const MigrateOptions how = attached ? MigrateOptions{.scope = StopScope::attached} : hold;
    doors.push_back(
        {"vma::migrate" + way, [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
           if (bytes == 0) {
             migrate(pointer, to, how);
           } else {
             migrate(pointer, offset, bytes, to, how);
           }
         }});
    doors.push_back({"vma::migrate_async" + way,
                     [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
                       if (bytes == 0) {
                         migrate_async(pointer, to, how).wait();
                       } else {
                         migrate_async(pointer, offset, bytes, to, how).wait();
                       }
                     }});
    doors.push_back({"vma::migrate of requests" + way,
                     [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
                       migrate(std::vector<MoveRequest>{{pointer, to, offset, bytes}}, how);
                     }});
    doors.push_back(
        {"vma::migrate_async of requests" + way,
         [=](void* pointer, std::size_t offset, std::size_t bytes, Place to) {
           migrate_async(std::vector<MoveRequest>{{pointer, to, offset, bytes}}, how).wait();
         }});
  }
  return doors;
}

/// Blocks that lie one behind the other in a segment of several chunks.
class BlockMoves : public AbiTest {
 protected:
  static constexpr std::size_t count = 4, block_bytes = 5 * chunk_bytes / 2;

  BlockMoves() {
    for (int gpu = 0; gpu < 2; ++gpu) attach(stream(gpu));
    PoolOptions options;
    options.chunk_bytes = chunk_bytes;
    pool_ = runtime().make_pool(gpu(0), options);
    // One segment with room for all.
    pool_.deallocate_now(pool_.allocate_now(2 * count * block_bytes));
    for (std::size_t i = 0; i < count; ++i) {
      blocks_.push_back(static_cast<char*>(pool_.allocate_now(block_bytes)));
      pattern(blocks_.back(), static_cast<char>(i + 1));
    }
    std::ranges::sort(blocks_);
    for (std::size_t i = 0; i < count; ++i) pattern(blocks_[i], static_cast<char>(i + 1));
  }
  ~BlockMoves() override {
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<char> now(block_bytes);
      read(blocks_[i], std::as_writable_bytes(std::span(now)));
      EXPECT_EQ(now, std::vector<char>(block_bytes, static_cast<char>(i + 1))) << i;
      pool_.deallocate_now(blocks_[i]);
    }
    pool_.destroy();
    for (int gpu = 0; gpu < 2; ++gpu) detach(stream(gpu));
  }
  static void pattern(char* block, char value) {
    const std::vector<char> bytes(block_bytes, value);
    write(block, std::as_bytes(std::span(bytes)));
  }
  void* segment() const { return runtime().allocation(blocks_[0]).pointer; }
  std::size_t segment_bytes() const { return runtime().allocation(blocks_[0]).bytes; }
  void all_back() {
    migrate(segment(), 0, segment_bytes(), gpu(0));
    EXPECT_EQ(where(segment()).size(), 1u);
  }
  /// The chunks of the segment that are at the second GPU.
  std::vector<std::size_t> moved() const {
    std::vector<std::size_t> chunks;
    for (const Extent& extent : where(segment())) {
      if (extent.at != gpu(1)) continue;
      for (std::size_t at = extent.offset; at < extent.offset + extent.bytes; at += chunk_bytes) {
        chunks.push_back(at / chunk_bytes);
      }
    }
    return chunks;
  }
  std::vector<std::size_t> chunks_of(const char* begin, std::size_t bytes) const {
    const auto offset = static_cast<std::size_t>(begin - static_cast<char*>(segment()));
    std::vector<std::size_t> chunks;
    for (std::size_t chunk = offset / chunk_bytes; chunk * chunk_bytes < offset + bytes; ++chunk) {
      chunks.push_back(chunk);
    }
    return chunks;
  }

  Pool pool_;
  std::vector<char*> blocks_;
};

TEST_F(BlockMoves, EveryCallMovesTheBlockThatContainsThePointer) {
  ASSERT_EQ(runtime().allocation(blocks_.front()).pointer,
            runtime().allocation(blocks_.back()).pointer);
  for (const Door& door : doors()) {
    for (char* const block : blocks_) {
      for (const std::size_t inside : {std::size_t{0}, std::size_t{513}, block_bytes - 1}) {
        SCOPED_TRACE(door.name + ", " + std::to_string(block - blocks_[0]) + " + " +
                     std::to_string(inside));
        door.move(block + inside, 0, 0, gpu(1));
        EXPECT_EQ(moved(), chunks_of(block, block_bytes));
        all_back();
      }
    }
  }
}

TEST_F(BlockMoves, ARangeBeginsAtThePointerAndMayCrossBlocks) {
  for (const Door& door : doors()) {
    SCOPED_TRACE(door.name);
    char* const middle = blocks_[1] + 700;
    door.move(middle, 100, 8, gpu(1));
    EXPECT_EQ(moved(), chunks_of(middle + 100, 8));
    all_back();
    door.move(middle, 100, 2 * block_bytes, gpu(1));
    EXPECT_EQ(moved(), chunks_of(middle + 100, 2 * block_bytes));
    all_back();
    door.move(segment(), 0, segment_bytes(), gpu(1));
    EXPECT_EQ(moved().size(), segment_bytes() / chunk_bytes);
    all_back();
  }
}

TEST_F(BlockMoves, WhatNamesNothingIsRefusedByEveryCall) {
  const auto kind = [](const Door& door, void* pointer, std::size_t offset, std::size_t bytes) {
    try {
      door.move(pointer, offset, bytes, gpu(1));
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorKind::driver_failure;
  };
  char* const freed = static_cast<char*>(pool_.allocate_now(block_bytes));
  ASSERT_EQ(runtime().allocation(freed).pointer, segment());
  pool_.deallocate_now(freed);
  int local = 0;
  for (const Door& door : doors()) {
    SCOPED_TRACE(door.name);
    EXPECT_EQ(kind(door, freed, 0, 0), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind(door, &local, 0, 0), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind(door, blocks_[1], 0, segment_bytes()), ErrorKind::invalid_argument);
    EXPECT_EQ(kind(door, blocks_[1], segment_bytes(), 1), ErrorKind::invalid_argument);
    EXPECT_EQ(kind(door, blocks_[1], SIZE_MAX, 2), ErrorKind::invalid_argument);
    EXPECT_EQ(kind(door, blocks_[1], 1, SIZE_MAX), ErrorKind::invalid_argument);
    EXPECT_TRUE(moved().empty());
  }
}

TEST_F(BlockMoves, OfAnAllocationEveryCallMovesAll) {
  std::uint64_t* words = filled(3, 7);
  for (const Door& door : doors()) {
    for (const std::size_t inside : {std::size_t{0}, std::size_t{1}, std::size_t{2000}}) {
      SCOPED_TRACE(door.name + " + " + std::to_string(inside));
      door.move(words + inside, 0, 0, gpu(1));
      EXPECT_EQ(where(words).size(), 1u);
      EXPECT_EQ(home_of(words), "gpu(1)");
      door.move(words + inside, 8, 8, gpu(0));
      EXPECT_EQ(home_of(words + inside + 1), "gpu(0)");
      EXPECT_EQ(where(words).size(), inside == 2000 ? 3u : 2u);
    }
  }
  EXPECT_EQ(wrong(words, 3, 7), 0u);
  vma::free(words);
}

}  // namespace
}  // namespace vma
