// Goal: memory can leave a place without a free byte, although a live move would need memory there.

#include "unit/runtime/service_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

/// Makes an allocation on gpu(0) and lowers the capacity so that not one more page fits there.
void* fill_place(ServiceRig& rig) {
  AllocOptions small;
  small.chunk_bytes = page;
  void* data = rig.runtime().alloc(4 * page, gpu(0), small);
  for (const RuntimeStats::PlaceStats& place : rig.runtime().stats().places) {
    if (place.at != gpu(0)) continue;
    rig.runtime().set_capacity(
        gpu(0), place.allocated_bytes + place.cached_bytes + place.own_bytes + place.leaked_bytes);
  }
  return data;
}

TEST(FullPlace, IsLeftStoppedWhereALiveMoveFindsNoRoomForItsDigests) {
  ServiceRig rig;
  void* data = fill_place(rig);
  rig.fill_on(0, data, 4 * page, 7);
  const AttachedStream attached(rig.runtime(), rig.stream(0));
  const MigrationReport report = rig.runtime().migrate_async(data, gpu(1)).wait();
  EXPECT_EQ(rig.runtime().where(data).front().at, gpu(1));
  EXPECT_EQ(report.chunks_live, 0u);
  EXPECT_EQ(rig.wrong_on(0, data, 4 * page, 7), 0u);
}

TEST(FullPlace, RefusesALiveMoveThatWasAskedFor) {
  ServiceRig rig;
  void* data = fill_place(rig);
  const AttachedStream attached(rig.runtime(), rig.stream(0));
  MigrateOptions live;
  live.mode = Mode::live;
  try {
    rig.runtime().migrate_async(data, gpu(1), live).wait();
    ADD_FAILURE() << "it moved";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  }
}

}  // namespace
}  // namespace vma
