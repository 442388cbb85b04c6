// Goal: memory that lives now counts as free from when a life like it says that it ends. Method:
// iterations of ten seconds, in which one large chunk is kept into the next one.
#include "placement/auto/repeated_lives.hpp"

#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class RepeatedLivesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t small = 100, large = 1000;

  RepeatedLivesTest()
      : tables_({{gpu(0), 10 * large}, {host(0), 10 * large}},
                PolicyMachine::h200(1, 10 * large, 10 * large).costs) {}

  /// Requests one chunk near the GPU.
  ChunkId request(Time at, std::uint64_t bytes, std::string_view tag) {
    tables_.set_now(at);
    AllocRequest request;
    request.bytes = request.chunk_bytes = bytes;
    request.device = gpu_place(0);
    request.tag = tag;
    lives_.asked(request, Snapshot(tables_));
    lives_.placed(request, std::vector{gpu_place(0)}, Snapshot(tables_));
    const std::vector<ChunkTables::NewChunk> chunk{{bytes, gpu_place(0)}};
    const ChunkId made = tables_.add(++allocations_, tag, chunk);
    lives_.end_tick(Snapshot(tables_));
    tables_.clear_changed();
    return made;
  }
  void free(Time at, ChunkId chunk) {
    tables_.set_now(at);
    tables_.remove(chunk, 1);
    lives_.gone(chunk, at);
  }
  void request_shortly(Time at, std::uint64_t bytes, std::string_view tag) {
    free(at + 500ms, request(at, bytes, tag));
  }
  std::uint64_t needed(Time at, Time until) {
    tables_.set_now(at);
    return lives_.needed_near(gpu_place(0), until, Snapshot(tables_));
  }

  ChunkTables tables_;
  RepeatedLives lives_{30ms};
  std::uint32_t allocations_ = 0;
};

// The kept chunk of each iteration ends 2 s after that of the next one is requested, and 1 s before
// another large one is.
TEST_F(RepeatedLivesTest, TheEndOfALifeTellsWhenThoseThatRepeatItEnd) {
  std::vector<ChunkId> kept;
  for (const Time begin : {0s, 10s}) {
    for (const std::string_view tag : {"a", "b", "c"})
      request_shortly(begin + std::chrono::seconds(tag[0] - 'a'), small, tag);
    kept.push_back(request(begin + 3s, large, "kept"));
    if (begin > 0s) {
      EXPECT_EQ(needed(14s, 27s), large) << "of the kept one nothing is known";
      free(15s, kept.front());
    }
    request_shortly(begin + 6s, large, "last");
  }
  EXPECT_EQ(needed(17s, 27s), large) << "at 23 s; the other is to end at 25 s, and then the last";
  free(18s, kept.back());
  EXPECT_EQ(needed(18s, 27s), 2 * large) << "what has ended does not end again";
}

}  // namespace
}  // namespace v1
}  // namespace vma
