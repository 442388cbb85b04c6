// Goal: every misuse that can be detected is refused with a typed error that names the call and the
// value, and changes nothing.
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/service_rig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace vma {
namespace {

Error refuse(ErrorKind kind, const char* call, const std::function<void()>& body) {
  const Error error = expect_error(kind, body);
  EXPECT_EQ(error.call(), call) << error.what();
  return error;
}

class BadInput : public testing::Test {
 protected:
  ~BadInput() override { rig_.check_invariants(); }
  ServiceRig rig_;
  Runtime& runtime_ = rig_.runtime();
  std::array<std::byte, 16> bytes_{};
};

TEST_F(BadInput, ZeroBytesAndTooMany) {
  refuse(ErrorKind::invalid_argument, "vma::alloc", [&] { runtime_.alloc(0); });
  refuse(ErrorKind::invalid_argument, "vma::alloc", [&] { runtime_.alloc(0, gpu(0)); });
  const Error huge =
      refuse(ErrorKind::invalid_argument, "vma::alloc", [&] { runtime_.alloc(SIZE_MAX, gpu(0)); });
  EXPECT_TRUE(says(huge, std::to_string(SIZE_MAX)));
  AllocOptions options;
  options.chunk_bytes = SIZE_MAX - 1;
  refuse(ErrorKind::invalid_argument, "vma::alloc", [&] { runtime_.alloc(1, gpu(0), options); });
  expect_error(ErrorKind::out_of_memory, [&] { runtime_.alloc(std::size_t{1} << 32, gpu(0)); });
}

TEST_F(BadInput, UnknownLocations) {
  void* pointer = runtime_.alloc(page, gpu(0));
  for (const Place nowhere : {gpu(2), gpu(-1), host(1), host(-3), gpu(2147483647)}) {
    const std::string name = to_string(nowhere);
    EXPECT_TRUE(says(
        refuse(ErrorKind::invalid_argument, "vma::alloc", [&] { runtime_.alloc(page, nowhere); }),
        name));
    EXPECT_TRUE(says(refuse(ErrorKind::invalid_argument, "vma::migrate",
                            [&] { runtime_.migrate(pointer, nowhere); }),
                     name));
    refuse(ErrorKind::invalid_argument, "vma::reserve", [&] { runtime_.reserve(nowhere, page); });
    refuse(ErrorKind::invalid_argument, "vma::trim", [&] { runtime_.trim(nowhere); });
    refuse(ErrorKind::invalid_argument, "vma::make_stream", [&] { runtime_.make_stream(nowhere); });
  }
  refuse(ErrorKind::invalid_argument, "vma::make_stream", [&] { runtime_.make_stream(host(0)); });
}

TEST_F(BadInput, NullForeignAndFreedPointers) {
  runtime_.free(nullptr);
  runtime_.free_async(nullptr, rig_.stream(0));
  void* freed = runtime_.alloc(page, gpu(0));
  runtime_.free(freed);
  int local = 0;
  for (void* pointer : {static_cast<void*>(nullptr), static_cast<void*>(&local), freed,
                        reinterpret_cast<void*>(UINTPTR_MAX)}) {
    SCOPED_TRACE(pointer);
    const auto unknown = [&](const char* call, const std::function<void()>& body) {
      EXPECT_TRUE(says(refuse(ErrorKind::unknown_pointer, call, body),
                       fmt::format("{}", fmt::ptr(pointer))));
    };
    unknown("vma::migrate", [&] { runtime_.migrate(pointer, gpu(1)); });
    unknown("vma::migrate", [&] { runtime_.migrate(pointer, 0, 1, gpu(1)); });
    unknown("vma::where", [&] { runtime_.where(pointer); });
    unknown("vma::size", [&] { runtime_.size(pointer); });
    unknown("vma::read", [&] { runtime_.read(pointer, bytes_); });
    unknown("vma::write", [&] { runtime_.write(pointer, bytes_); });
    unknown("vma::host_view", [&] { runtime_.host_view(pointer, 1); });
    if (pointer == nullptr) continue;
    unknown("vma::free", [&] { runtime_.free(pointer); });
    unknown("vma::free_async", [&] { runtime_.free_async(pointer, rig_.stream(0)); });
  }
}

TEST_F(BadInput, InteriorPointers) {
  void* pointer = runtime_.alloc(3 * page, gpu(0));
  refuse(ErrorKind::unknown_pointer, "vma::free", [&] { runtime_.free(at(pointer, page)); });
  refuse(ErrorKind::unknown_pointer, "vma::free_async",
         [&] { runtime_.free_async(at(pointer, 1), rig_.stream(0)); });
  EXPECT_EQ(runtime_.where(at(pointer, page)).front().bytes, 3 * page) << "allowed here";
  runtime_.free(pointer);
}

TEST_F(BadInput, RangesThatReachOutside) {
  void* pointer = runtime_.alloc(2 * page, gpu(0));
  const auto move = [&](std::size_t offset, std::size_t bytes) {
    return refuse(ErrorKind::invalid_argument, "vma::migrate",
                  [&] { runtime_.migrate(pointer, offset, bytes, gpu(1)); });
  };
  EXPECT_TRUE(says(move(2 * page, 1), std::to_string(2 * page)));
  move(0, 2 * page + 1);
  move(0, 0);
  move(SIZE_MAX, 1);
  move(1, SIZE_MAX);
  std::vector<std::byte> many(2 * page);
  refuse(ErrorKind::invalid_argument, "vma::read", [&] { runtime_.read(at(pointer, 1), many); });
  refuse(ErrorKind::invalid_argument, "vma::write", [&] { runtime_.write(at(pointer, 1), many); });
  runtime_.migrate(pointer, host(0));
  refuse(ErrorKind::invalid_argument, "vma::host_view",
         [&] { runtime_.host_view(at(pointer, page), page + 1); });
  refuse(ErrorKind::invalid_argument, "vma::host_view", [&] { runtime_.host_view(pointer, 0); });
  EXPECT_EQ(runtime_.where(pointer).front().at, host(0));
}

TEST_F(BadInput, ModesThatTheSynchronousCallHasNot) {
  void* pointer = runtime_.alloc(page, gpu(0));
  MigrateOptions live;
  live.mode = Mode::live;
  refuse(ErrorKind::unsupported, "vma::migrate", [&] { runtime_.migrate(pointer, gpu(1), live); });
}

TEST_F(BadInput, BackgroundMovesThatCannotBe) {
  void* pointer = runtime_.alloc(2 * page, gpu(0));
  const auto call = "vma::migrate_async";
  const Stream stream = runtime_.make_stream(gpu(0));
  const AttachedStream attached(runtime_, stream);
  refuse(ErrorKind::unknown_pointer, call, [&] { runtime_.migrate_async(nullptr, gpu(1)); });
  refuse(ErrorKind::invalid_argument, call, [&] { runtime_.migrate_async(pointer, gpu(9)); });
  refuse(ErrorKind::invalid_argument, call,
         [&] { runtime_.migrate_async(pointer, page, 2 * page, gpu(1)); });
  refuse(ErrorKind::invalid_argument, call, [&] { runtime_.migrate_async(pointer, 0, 0, gpu(1)); });
  MigrateOptions options;
  options.deadline = std::chrono::milliseconds(-1);
  refuse(ErrorKind::invalid_argument, call,
         [&] { runtime_.migrate_async(pointer, gpu(1), options); });
  for (const int percent : {-1, 0, 101}) {
    options = {};
    options.copy_share_percent = percent;
    refuse(ErrorKind::invalid_argument, call,
           [&] { runtime_.migrate_async(pointer, gpu(1), options); });
  }
  options = {};
  options.scope = StopScope::hold;
  options.mode = Mode::live;
  refuse(ErrorKind::unsupported, call, [&] { runtime_.migrate_async(pointer, gpu(1), options); });
  refuse(ErrorKind::invalid_argument, "vma::Migration", [&] { Migration().wait(); });
  refuse(ErrorKind::invalid_argument, "vma::Migration", [&] { Migration().cancel(); });
  EXPECT_EQ(runtime_.where(pointer).front().at, gpu(0));
  runtime_.free(pointer);
}

TEST_F(BadInput, StreamsThatAreAttachedTwiceOrNotAtAll) {
  const Stream stream = runtime_.make_stream(gpu(0));
  void* pointer = runtime_.alloc(page, gpu(0));
  refuse(ErrorKind::invalid_argument, "vma::detach", [&] { runtime_.detach(stream); });
  runtime_.attach(stream);
  refuse(ErrorKind::invalid_argument, "vma::attach", [&] { runtime_.attach(stream); });
  refuse(ErrorKind::invalid_argument, "vma::detach", [&] { runtime_.detach(stream, pointer); });
  runtime_.attach(stream, pointer);
  runtime_.detach(stream);
  runtime_.detach(stream, pointer);
  refuse(ErrorKind::unknown_pointer, "vma::attach", [&] { runtime_.attach(stream, this); });
  runtime_.destroy_stream(stream);
  EXPECT_THROW(runtime_.attach(stream), Error);
}

TEST_F(BadInput, HooksThatAreNone) {
  void* pointer = runtime_.alloc(page, gpu(0));
  refuse(ErrorKind::invalid_argument, "vma::on_move", [&] { runtime_.on_move(pointer, {}); });
  refuse(ErrorKind::unknown_pointer, "vma::on_move", [&] {
    runtime_.on_move(this, {[](const MoveEvent&) {}, {}});
  });
  refuse(ErrorKind::unknown_pointer, "vma::pin", [&] { runtime_.pin(this); });
  refuse(ErrorKind::unknown_pointer, "vma::read_only", [&] { runtime_.read_only(nullptr); });
  refuse(ErrorKind::unknown_pointer, "vma::note_export", [&] { runtime_.note_export(this); });
}

TEST_F(BadInput, StreamsThatAreNone) {
  Stream mine = runtime_.make_stream(gpu(0));
  runtime_.destroy_stream(mine);
  refuse(ErrorKind::invalid_argument, "vma::destroy_stream",
         [&] { runtime_.destroy_stream(mine); });
  refuse(ErrorKind::invalid_argument, "vma::destroy_stream",
         [&] { runtime_.destroy_stream(nullptr); });
  EXPECT_THROW(runtime_.synchronize(mine), Error);
  EXPECT_THROW(runtime_.launch(mine, Kernel{"", "spin", {}}, {}, {}, KernelArguments::of(1)),
               Error);
  void* pointer = runtime_.alloc(page, gpu(0));
  EXPECT_THROW(runtime_.free_async(pointer, mine), Error);
  runtime_.free(pointer);  // The refusal freed nothing.
}

TEST(HeldInput, WhileAStreamCaptures) {
  ServiceRig rig("test-2", without_suspension());
  Runtime& runtime = rig.runtime();
  void* pointer = runtime.alloc(page, gpu(0));
  const StreamHandle handle{reinterpret_cast<std::uint64_t>(rig.stream(0))};
  const BoundStream stream{rig.machine().stream_context(handle), handle};
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  expect_error(ErrorKind::unsupported, [&] { runtime.migrate(pointer, gpu(1)); });
  EXPECT_THROW(rig.machine().end_capture(stream), Error);
  EXPECT_EQ(runtime.where(pointer).front().at, gpu(0));
  EXPECT_EQ(runtime.migrate(pointer, gpu(1)).chunks_moved, 1);
  rig.check_invariants();
}

TEST(Readers, ThatCannotReachAreRefusedByName) {
  ServiceRig rig("test-islands");
  const Place reachable[] = {gpu(0), gpu(1)}, other[] = {gpu(1), gpu(2)}, none[] = {gpu(9)};
  void* pointer = rig.runtime().alloc(page, gpu(0), reachable);
  rig.fill_on(1, pointer, page, 4);
  EXPECT_EQ(rig.wrong_on(0, pointer, page, 4), 0u);
  const Error error = refuse(ErrorKind::unreachable, "vma::alloc",
                             [&] { rig.runtime().alloc(page, gpu(0), other); });
  EXPECT_TRUE(says(error, "gpu(2)"));
  EXPECT_TRUE(says(error, "gpu(0)"));
  refuse(ErrorKind::invalid_argument, "vma::alloc",
         [&] { rig.runtime().alloc(page, gpu(0), none); });
  const Place all[] = {gpu(0), gpu(1), gpu(2), gpu(3)};
  void* shared = rig.runtime().alloc(page, host(0), all);  // All GPUs reach the host.
  rig.fill_on(3, shared, page, 4);
  EXPECT_EQ(rig.wrong_on(0, shared, page, 4), 0u);
}

}  // namespace
}  // namespace vma
