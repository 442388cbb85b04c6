// Goal: memory that other processes know is never reused, stays in place while they use it, and is
// booked by one process only; chunks get as many of the wanted export types as the driver gives.
// Method: the layer alone; tests/unit/sharing/ has the processes.

#include "unit/memory/memory_rig.hpp"

#include "driver/native_codes.hpp"
#include "machine/machine_file.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace vma {
namespace {

MemoryLimits exportable(const ExportTypes& types = {.descriptor = true}) {
  MemoryLimits limits;
  limits.exportable = types;
  return limits;
}

TEST(SharedMemory, ChunksGetTheTypesThatTheDriverGives) {
  // Fabric handles are refused at creation, as without IMEX.
  MemoryRig rig("test-2", exportable({.descriptor = true, .fabric = true, .rdma = true}));
  const auto allocation = rig.alloc(2, gpu(0), 1);
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const ExportTypes expected{.descriptor = true, .fabric = false, .rdma = true};
    EXPECT_EQ(allocation->chunk(slot).types(), expected);
  }
  rig.memory().chunks().export_terms().require_descriptors(*allocation, "test");
  rig.free(allocation);
}

TEST(SharedMemory, ARefusedCreationIsTriedWithoutTheTypeAndAFullPlaceIsNot) {
  MemoryRig rig("test-2", exportable());
  rig.fail({Call::create_exportable}, {0, 1});  // Out of memory, and once more after making room.
  expect_error(ErrorKind::out_of_memory, [&] { rig.alloc(1, gpu(0)); });
  rig.fail_nothing();
  const auto allocation = rig.alloc(1, gpu(0));
  EXPECT_TRUE(allocation->chunk(0).types().descriptor);
  rig.free(allocation);
}

/// Refuses to create anything with one of these types, with whatever error, like a container that
/// forbids it.
class ForbiddingDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  ChunkHandle create(Place at, std::uint64_t size_bytes) override {
    if (broken) throw driver_error(native_unknown, "cuMemCreate", "nothing works");
    return InterceptDriver::create(at, size_bytes);
  }
  ChunkHandle create_exportable(Place at, std::uint64_t size_bytes, ExportTypes types) override {
    ++asked;
    const bool forbids = (types & forbidden).any();
    if (forbids) throw driver_error(error, "cuMemCreate", "the test forbids it");
    return InterceptDriver::create_exportable(at, size_bytes, types);
  }
  ExportTypes forbidden{};
  int error = native_operating_system;
  bool broken = false;
  int asked = 0;

 private:
  void around(Call, const std::function<void()>& call) override { call(); }
};

class ExportTermsTest : public testing::Test {
 protected:
  /// With which types a chunk is created.
  ExportTypes created(const ExportTypes& needs = {}) {
    const ChunkMemory memory = terms_.create(gpu(0), page_bytes, needs);
    driver_.release(memory.handle);
    return memory.types;
  }

  SimDriver machine_{load_machine("test-2")};
  ForbiddingDriver driver_{static_cast<Driver&>(machine_)};
  Topology topology_ = Topology::discover(machine_, {});
  ExportTerms terms_{driver_, topology_, {.descriptor = true, .rdma = true}};
};

TEST_F(ExportTermsTest, WhateverErrorATypeCausesItIsLeftOutFromThenOn) {
  driver_.forbidden = {.rdma = true};
  EXPECT_EQ(created(), ExportTypes{.descriptor = true});
  driver_.forbidden = {.descriptor = true};
  EXPECT_EQ(created(), ExportTypes{});
  driver_.forbidden = {};
  driver_.asked = 0;
  EXPECT_EQ(created(), ExportTypes{});
  EXPECT_EQ(created({.descriptor = true}), ExportTypes{});
  EXPECT_EQ(driver_.asked, 0) << "it remembers";
}

TEST_F(ExportTermsTest, WhereNothingCanBeCreatedTheTypesAreNotTheReason) {
  driver_.forbidden = {.descriptor = true};
  driver_.broken = true;
  const Error error = expect_error(ErrorKind::driver_failure, [&] { created(); });
  EXPECT_TRUE(says(error, "the test forbids it")) << "the first error";
  driver_.forbidden = {};
  driver_.broken = false;
  const ExportTypes both{.descriptor = true, .fabric = false, .rdma = true};
  EXPECT_EQ(created(), both);
}

TEST_F(ExportTermsTest, AFullPlaceTakesNoTypeAway) {
  driver_.forbidden = {.descriptor = true};
  driver_.error = native_out_of_memory;
  expect_error(ErrorKind::out_of_memory, [&] { created(); });
  EXPECT_EQ(driver_.asked, 1);
  driver_.forbidden = {};
  EXPECT_TRUE(created().descriptor);
}

TEST(SharedMemory, WithoutTheOptionNothingIsAskedForAndTheErrorNamesIt) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  EXPECT_FALSE(allocation->chunk(0).types().any());
  EXPECT_EQ(rig.calls(Call::create_exportable), 0);
  const Error error = expect_error(ErrorKind::unsupported, [&] {
    rig.memory().chunks().export_terms().require_descriptors(*allocation, "test");
  });
  EXPECT_TRUE(says(error, "VMART_EXPORTABLE"));
  rig.free(allocation);
}

TEST(SharedMemory, ASharedChunkGoesBackToTheDriver) {
  MemoryRig rig("test-2", exportable());
  const auto allocation = rig.alloc(2, gpu(0), 1);
  allocation->share();
  EXPECT_FALSE(allocation->reusable());
  const int released = rig.calls(Call::release);
  rig.free(allocation);
  check_settled(rig.memory());
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  EXPECT_EQ(rig.calls(Call::release), released + 2);
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
}

TEST(SharedMemory, SharingMakesCleanCopiesStale) {
  MemoryRig rig("test-2", exportable());
  const auto allocation = rig.alloc(1, gpu(0));
  const std::uint64_t epoch = allocation->writable_epoch();
  allocation->share();
  EXPECT_GT(allocation->writable_epoch(), epoch);
  rig.free(allocation);
}

TEST(SharedMemory, AnImporterKeepsItInPlaceAndIsNamed) {
  MemoryRig rig("test-2", exportable());
  const auto allocation = rig.alloc(1, gpu(0));
  const std::uint64_t first = allocation->importers().add({4711, 1});
  const std::uint64_t second = allocation->importers().add({4712, 1});
  EXPECT_FALSE(allocation->may_move());
  EXPECT_NE(allocation->why_pinned().find("4711 and 1 more"), std::string::npos);
  allocation->importers().remove(first);
  EXPECT_NE(allocation->why_pinned().find("4712"), std::string::npos);
  allocation->importers().remove(second);
  allocation->importers().remove(second);
  EXPECT_TRUE(allocation->may_move());
  rig.free(allocation);
}

TEST(SharedMemory, AnExportKeepsItFromBeingFreed) {
  MemoryRig rig("test-2", exportable());
  const auto allocation = rig.alloc(1, gpu(0));
  ++allocation->exports;
  EXPECT_TRUE(
      says(expect_error(ErrorKind::pinned, [&] { rig.free(allocation); }), "ExportedAllocation"));
  --allocation->exports;
  rig.free(allocation);
}

TEST(SharedMemory, ImportedMemoryIsNotBookedAndNotCached) {
  MemoryRig rig("test-2", exportable());
  const auto exported = rig.alloc(2, gpu(0), 1);
  const std::uint64_t booked = rig.account(gpu(0)).allocated_bytes;
  std::vector<Chunk> chunks;
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const int descriptor = rig.driver().export_chunk(exported->chunk(slot).handle());
    const ChunkHandle handle = rig.driver().import_chunk(descriptor);
    close(descriptor);
    chunks.emplace_back(rig.driver(), rig.memory().chunks().ledger(),
                        ChunkMemory{handle, gpu(0), rig.page(), {}, true},
                        rig.topology().readers(gpu(0)));
  }
  const auto lease = std::make_shared<int>(0);
  auto imported = rig.memory().import(exported->geometry(), std::move(chunks),
                                      {"theirs", "process 4711", lease});
  rig.expect_shown(*imported);
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, booked);
  check_settled(rig.memory());
  EXPECT_NE(imported->why_pinned().find("process 4711"), std::string::npos);
  EXPECT_EQ(rig.memory().registry().hold(imported->begin() + 8), imported);
  rig.free(imported);
  check_settled(rig.memory());
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, booked);
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  EXPECT_EQ(lease.use_count(), 1) << "whoever still holds the allocation";
  imported.reset();
  rig.free(exported);
}

}  // namespace
}  // namespace vma
