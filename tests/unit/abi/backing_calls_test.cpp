// Goal: the C calls for memory at addresses of the caller; it moves there and keeps its bytes
// through moves and unmaps.
#include "abi/run_table.hpp"
#include "unit/abi/abi_rig.hpp"

namespace vma {
namespace {

class BackingCalls : public AbiTest {
 protected:
  void SetUp() override { range_ = driver().reserve(range_bytes, 0); }
  void TearDown() override { driver().unreserve(range_, range_bytes); }
  void* at(std::uint64_t offset) const { return to_pointer(range_ + offset); }
  vmart_backing* create(std::uint64_t bytes) {
    vmart_backing* made = nullptr;
    EXPECT_EQ(vmart_backing_create(bytes, c_gpu(0), nullptr, &made), VMART_OK)
        << vmart_last_error();
    return made;
  }
  static constexpr std::uint64_t range_bytes = 16 * chunk_bytes;

 private:
  Address range_{};
};

TEST_F(BackingCalls, MemoryMovesBehindAddressesOfTheCaller) {
  vmart_backing* const backing = create(2 * chunk_bytes);
  ASSERT_EQ(vmart_backing_map(backing, at(0)), VMART_OK) << vmart_last_error();
  std::vector<unsigned char> written(2 * chunk_bytes), now(written.size());
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<unsigned char>(i * 7);
  ASSERT_EQ(vmart_write(at(0), written.data(), written.size()), VMART_OK);
  const vmart_place places[] = {c_gpu(1), c_host(0), c_gpu(0), c_host(0)};
  std::uint64_t offset = 0;
  for (const vmart_place to : places) {
    ASSERT_EQ(vmart_migrate(at(offset), 0, 0, to, nullptr), VMART_OK) << vmart_last_error();
    EXPECT_EQ(vmart_backing_unmap(backing), VMART_OK) << vmart_last_error();
    EXPECT_EQ(vmart_where(at(offset), nullptr), VMART_INVALID_ARGUMENT);
    EXPECT_FALSE(is_allocated(at(offset)));
    offset += chunk_bytes;
    ASSERT_EQ(vmart_backing_map(backing, at(offset)), VMART_OK) << vmart_last_error();
    EXPECT_EQ(home_of(at(offset)), to_string(to.kind == VMART_GPU ? gpu(to.ordinal) : host(0)))
        << "it lies where it lay";
    ASSERT_EQ(vmart_read(at(offset), now.data(), now.size()), VMART_OK);
    EXPECT_EQ(now, written);
  }
  EXPECT_EQ(vmart_backing_share(backing), VMART_BUSY);
  ASSERT_EQ(vmart_migrate(at(offset), 0, 0, c_gpu(0), nullptr), VMART_OK);
  EXPECT_EQ(vmart_backing_share(backing), VMART_OK) << vmart_last_error();
  EXPECT_EQ(vmart_migrate(at(offset), 0, 0, c_gpu(1), nullptr), VMART_PINNED);
  EXPECT_EQ(vmart_backing_release(backing), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_backing_unmap(backing), VMART_OK);
  EXPECT_EQ(vmart_backing_release(backing), VMART_OK);
}

TEST_F(BackingCalls, DroppedContentsComeBackAsNewMemory) {
  vmart_backing_options options{};
  options.size_bytes = sizeof options;
  options.tag = "dropped";
  vmart_backing* backing = nullptr;
  ASSERT_EQ(vmart_backing_create(chunk_bytes, c_gpu(0), &options, &backing), VMART_OK);
  ASSERT_EQ(vmart_backing_map(backing, at(0)), VMART_OK);
  ASSERT_EQ(vmart_park_dropping("dropped", nullptr, nullptr, nullptr), VMART_OK)
      << vmart_last_error();
  ASSERT_EQ(vmart_backing_unmap(backing), VMART_OK) << vmart_last_error();
  ASSERT_EQ(vmart_backing_map(backing, at(chunk_bytes)), VMART_OK) << vmart_last_error();
  EXPECT_EQ(home_of(at(chunk_bytes)), "gpu(0)");
  EXPECT_EQ(vmart_backing_unmap(backing), VMART_OK);
  EXPECT_EQ(vmart_backing_release(backing), VMART_OK);
}

TEST_F(BackingCalls, WantOfMemoryIsReportedAtTheCreation) {
  vmart_backing* backing = nullptr;
  EXPECT_EQ(vmart_backing_create(2 * second_gpu_bytes, c_gpu(1), nullptr, &backing),
            VMART_OUT_OF_MEMORY);
  EXPECT_EQ(vmart_backing_create(chunk_bytes + 1, c_gpu(0), nullptr, &backing),
            VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_backing_create(chunk_bytes, c_gpu(0), nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(backing, nullptr);
  EXPECT_EQ(vmart_backing_map(nullptr, at(0)), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_backing_unmap(nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_backing_share(nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_backing_release(nullptr), VMART_OK);
}

TEST_F(BackingCalls, OtherMemoryMakesWayOnlyIfAskedTo) {
  vmart_backing* backing = nullptr;
  void* other = nullptr;
  ASSERT_EQ(vmart_alloc(second_gpu_bytes / 2, c_gpu(1), &other), VMART_OK);
  ASSERT_EQ(vmart_attach(stream(1)), VMART_OK) << vmart_last_error();
  vmart_backing_options options{};
  options.size_bytes = sizeof options;
  const std::uint64_t too_much = second_gpu_bytes / 4 * 3;
  EXPECT_EQ(vmart_backing_create(too_much, c_gpu(1), &options, &backing), VMART_OUT_OF_MEMORY);
  EXPECT_EQ(home_of(other), "gpu(1)");
  options.make_room = 1;
  EXPECT_EQ(vmart_backing_create(too_much, c_gpu(1), &options, &backing), VMART_OK)
      << vmart_last_error();
  EXPECT_NE(home_of(other), "gpu(1)");
  EXPECT_EQ(vmart_backing_release(backing), VMART_OK);
  EXPECT_EQ(vmart_free(other), VMART_OK);
  EXPECT_EQ(vmart_detach(stream(1)), VMART_OK);
}

}  // namespace
}  // namespace vma
