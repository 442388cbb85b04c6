// Goal: memory moves behind the containers that hold it: their pointers stay, kernels beside the
// move lose nothing, and what containers allocate later comes from the new place. Method: CCCL's
// own `cuda::buffer`, which holds an any_resource by value as RMM's containers do.
#include "unit/memory_resource/resource_rig.hpp"

#include "support/test_kernels.hpp"

#include <cuda/buffer>

#include <optional>
#include <utility>
#include <vector>

namespace vma {
namespace {

using Words = cuda::buffer<std::uint64_t, cuda::mr::device_accessible>;

constexpr std::size_t buffer_words = 40'000;

class MovingContainers : public testing::Test {
 protected:
  Words make_words() {
    return cuda::make_buffer<std::uint64_t>(stream(), AnyResource(MemoryResource(pool_)),
                                            buffer_words, cuda::no_init);
  }
  cuda::stream_ref stream() { return cuda::stream_ref(rig_.stream(0)); }

  PoolRig rig_{"test-2", patient()};
  Pool pool_ = rig_.runtime().make_pool(gpu(0));
};

TEST_F(MovingContainers, ABufferKeepsItsPointerAndItsWords) {
  Words words = make_words();
  std::uint64_t* const data = words.data();
  rig_.fill_by(0, data, buffer_words, 9);
  EXPECT_EQ(rig_.place(data), gpu(0));
  for (const Place to : {gpu(1), host(0), gpu(0)}) {
    rig_.runtime().migrate(pool_, to);
    EXPECT_EQ(words.data(), data);
    EXPECT_EQ(rig_.place(data), to);
    EXPECT_EQ(rig_.wrong_for(0, data, buffer_words, 9), 0u);
    EXPECT_EQ(rig_.wrong_for(1, data, buffer_words, 9), 0u);
  }
}

TEST_F(MovingContainers, KernelsAddBesideTheMove) {
  Words words = make_words();
  rig_.fill_by(0, words.data(), buffer_words, 0);
  const AttachedStream attached(rig_.runtime(), rig_.stream(0));
  constexpr std::uint64_t launches = 80;
  for (std::uint64_t i = 0; i < launches; ++i) {
    rig_.runtime().launch(
        rig_.stream(0), add_kernel(), {1, 1, 1}, {32, 1, 1},
        KernelArguments::of(words.data(), std::uint64_t{buffer_words}, std::uint64_t{1}));
    if (i % 20 == 10) {
      MigrateOptions options;
      options.scope = StopScope::attached;
      rig_.runtime().migrate(pool_, i % 40 == 10 ? gpu(1) : gpu(0), options);
    }
  }
  rig_.runtime().synchronize(rig_.stream(0));
  EXPECT_EQ(rig_.wrong_for(0, words.data(), buffer_words, launches), 0u);
  EXPECT_EQ(rig_.place(words.data()), gpu(0));
}

TEST_F(MovingContainers, LaterOnesAreMadeAtTheNewPlace) {
  const Words first = make_words();
  rig_.runtime().migrate(pool_, gpu(1));
  std::vector<Words> more;
  for (int i = 0; i < 40; ++i) more.push_back(make_words());
  for (Words& words : more) EXPECT_EQ(rig_.place(words.data()), gpu(1));
}

TEST_F(MovingContainers, ABufferHandsItsMemoryOnAndGivesItBack) {
  std::optional<Words> words = make_words();
  std::uint64_t* const data = words->data();
  rig_.fill_by(0, data, buffer_words, 4);
  Words moved = std::move(*words);
  words.reset();
  rig_.runtime().migrate(pool_, gpu(1));
  EXPECT_EQ(rig_.wrong_for(1, moved.data(), buffer_words, 4), 0u);
  EXPECT_EQ(moved.data(), data);
  moved.destroy();
  EXPECT_EQ(pool_.stats().used_bytes, 0u);
}

}  // namespace
}  // namespace vma
