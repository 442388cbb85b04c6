// Goal: the C calls that park memory by tag behave as the C++ ones do.
#include "unit/abi/abi_rig.hpp"

#include <vma/vmart.h>

#include <gtest/gtest.h>

namespace vma {
namespace {

class ParkCalls : public AbiTest {};

TEST_F(ParkCalls, TakeMemoryOutOfHbmAndBringItBack) {
  void* memory = nullptr;
  ASSERT_EQ(vmart_alloc_tagged(4096, c_gpu(0), "c model", &memory), VMART_OK);
  uint64_t moved = 0, stayed = 1;
  int parked = 7;
  ASSERT_EQ(vmart_is_parked("c model", &parked), VMART_OK);
  EXPECT_EQ(parked, 0);
  ASSERT_EQ(vmart_park("c model", nullptr, &moved, &stayed), VMART_OK);
  EXPECT_EQ(moved, 4096u);
  EXPECT_EQ(stayed, 0u);
  EXPECT_EQ(home_of(memory), "host(0)");
  ASSERT_EQ(vmart_is_parked("c model", &parked), VMART_OK);
  EXPECT_EQ(parked, 1);
  vmart_migrate_options options{};
  options.size_bytes = sizeof options;
  options.nothing_runs = 1;
  ASSERT_EQ(vmart_resume("c model", &options, nullptr, nullptr), VMART_OK);
  EXPECT_EQ(home_of(memory), "gpu(0)");
  EXPECT_EQ(vmart_free(memory), VMART_OK);
}

TEST_F(ParkCalls, DropContents) {
  void* memory = nullptr;
  ASSERT_EQ(vmart_alloc_tagged(4096, c_gpu(0), "c dropped", &memory), VMART_OK);
  uint64_t word = 7;
  ASSERT_EQ(vmart_write(memory, &word, sizeof word), VMART_OK);
  uint64_t dropped = 0, stayed = 1;
  ASSERT_EQ(vmart_park_dropping("c dropped", nullptr, &dropped, &stayed), VMART_OK);
  EXPECT_EQ(dropped, 4096u);
  EXPECT_EQ(stayed, 0u);
  vmart_place at{};
  EXPECT_EQ(vmart_read(memory, &word, sizeof word), VMART_DROPPED);
  EXPECT_EQ(vmart_where(memory, &at), VMART_DROPPED);
  vmart_migrate_options options{};
  options.size_bytes = sizeof options;
  options.scope = VMART_SCOPE_ATTACHED;
  EXPECT_EQ(vmart_park_dropping("c dropped", &options, nullptr, nullptr), VMART_UNSUPPORTED);
  EXPECT_EQ(vmart_park_dropping(nullptr, nullptr, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  uint64_t resumed = 0;
  ASSERT_EQ(vmart_resume("c dropped", nullptr, &resumed, nullptr), VMART_OK);
  EXPECT_EQ(resumed, 4096u);
  EXPECT_EQ(home_of(memory), "gpu(0)");
  ASSERT_EQ(vmart_read(memory, &word, sizeof word), VMART_OK);
  EXPECT_EQ(word, 0u);
  EXPECT_EQ(vmart_free(memory), VMART_OK);
}

TEST_F(ParkCalls, RefuseWhatMakesNoSense) {
  int parked = 0;
  void* memory = nullptr;
  EXPECT_EQ(vmart_alloc_tagged(8, c_gpu(0), nullptr, &memory), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_alloc_tagged(8, c_gpu(0), "tag", nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_park(nullptr, nullptr, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_park("no such tag", nullptr, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_resume("no such tag", nullptr, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_is_parked(nullptr, &parked), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_is_parked("tag", nullptr), VMART_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace vma
