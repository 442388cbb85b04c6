#include "unit/migrate/moves/move_rig.hpp"

#include "support/test_kernels.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <vector>

namespace vma {
namespace {

using Words = std::vector<std::uint64_t>;

Words pattern(std::uint64_t size_bytes, std::uint64_t seed) {
  Words words(size_bytes / sizeof(std::uint64_t));
  std::iota(words.begin(), words.end(), seed);
  return words;
}

MigratorLimits limits_of(bool suspends) {
  MigratorLimits limits;
  limits.hold_limit = MoveRig::hold_limit;
  limits.suspends = suspends;
  if (suspends) limits.gate_limit = std::chrono::seconds(1);  // A busy machine copies slowly.
  return limits;
}

}  // namespace

MoveRig::MoveRig(const std::string& machine, const MemoryLimits& limits, const SimOptions& options,
                 bool suspends)
    : MemoryRig(machine, limits, options),
      engine_(std::make_unique<CopyEngine>(driver(), topology(), memory().contexts(),
                                           memory().chunks().ledger(),
                                           memory().chunks().slow_calls().turn())),
      migrator_(std::make_unique<Migrator>(memory(), *engine_, limits_of(suspends))) {}

MoveRig::~MoveRig() {
  fail_nothing();
  let_all_go();  // Contexts end only once their work has ended.
  migrator_.reset();
  engine_.reset();
}

std::shared_ptr<Allocation> MoveRig::filled(std::uint64_t pages, Place at,
                                            std::uint64_t chunk_pages, std::uint64_t seed) {
  const auto allocation = alloc(pages, at, chunk_pages);
  fill(*allocation, seed);
  return allocation;
}

void MoveRig::fill(const Chunk& chunk, std::uint64_t seed) {
  const Words words = pattern(chunk.size_bytes(), seed);
  memory().chunks().map_staging(chunk, ChunkStore::Turn::take);
  engine_->write(chunk, chunk.staging(), std::as_bytes(std::span(words)));
}

void MoveRig::fill(Allocation& allocation, std::uint64_t seed) {
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    fill(allocation.chunk(slot), seed + slot * allocation.geometry().chunk_bytes / 8);
  }
}

std::uint64_t MoveRig::wrong(const Chunk& chunk, std::uint64_t seed) {
  Words words(chunk.size_bytes() / sizeof(std::uint64_t));
  memory().chunks().map_staging(chunk, ChunkStore::Turn::take);
  engine_->read(chunk, chunk.staging(), std::as_writable_bytes(std::span(words)));
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += words[i] != seed + i;
  return wrong;
}

std::uint64_t MoveRig::wrong(const Allocation& allocation, std::uint64_t seed) {
  std::uint64_t sum = 0;
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    sum += wrong(allocation.chunk(slot), seed + slot * allocation.geometry().chunk_bytes / 8);
  }
  return sum;
}

std::uint64_t MoveRig::wrong_for(int gpu, const Allocation& allocation, std::uint64_t seed) {
  auto* count =
      static_cast<std::uint64_t*>(machine().allocate_pinned(context(gpu), sizeof(std::uint64_t)));
  const BoundStream stream = machine().create_stream(context(gpu), StreamKind::non_blocking);
  const KernelHandle kernel = machine().load_kernel(context(gpu), compare_kernel());
  machine().launch(stream, kernel, {},
                   KernelArguments::of(to_pointer(allocation.begin()), allocation.size_bytes() / 8,
                                       seed, count));
  machine().wait_stream(stream, never);
  machine().unload_kernel(kernel);
  machine().destroy_stream(stream);
  const std::uint64_t wrong = *count;
  machine().free_pinned(context(gpu), count);
  return wrong;
}

MigrationReport MoveRig::move(Allocation& allocation, Place to, const MigrateOptions& options) {
  return move(allocation, {0, allocation.geometry().slots}, to, options);
}

MigrationReport MoveRig::move(Allocation& allocation, SlotRange range, Place to,
                              const MigrateOptions& options) {
  allocation.begin_move();
  struct End {
    ~End() { allocation.end_move(); }
    Allocation& allocation;
  } end{allocation};
  return migrator_->move(allocation, range, to, options);
}

std::vector<RangeResult> MoveRig::move_all(const std::vector<RequestedRange>& ranges,
                                           const MigrateOptions& options,
                                           const MigrationTerms& terms) {
  const auto account = std::make_shared<GroupAccount>(
      machine().clock(), std::vector<MigrationProgress>(ranges.size()), nullptr);
  std::vector<RangeResult> results = migrator_->move_all(ranges, options, terms, *account);
  std::vector<RequestReport> reports;
  for (const RangeResult& one : results) reports.push_back({{}, one.report, one.error});
  results.push_back({account->total(reports), std::nullopt});
  return results;
}

RequestedRange whole(const std::shared_ptr<Allocation>& allocation, Place to) {
  return {allocation, {0, allocation->geometry().slots}, to};
}

std::unique_ptr<Task> spawn_destroyer(MoveRig& rig, SteppedThreads& executor, Call interferes,
                                      std::chrono::milliseconds takes) {
  const ContextHandle other = rig.machine().create_context(DeviceId{0});
  rig.delay(interferes, takes);
  rig.forget_calls();
  return executor.spawn("destroyer", [&rig, &executor, other] {
    while (rig.calls(Call::hold_context) < 2) executor.sleep(std::chrono::microseconds(50));
    rig.machine().destroy_context(other);
  });
}

OwnContextStream::OwnContextStream(MoveRig& owner)
    : rig(owner),
      context(rig.machine().create_context(DeviceId{0})),
      stream(rig.machine().create_stream(context, StreamKind::non_blocking)) {
  // The first load of a kernel's code waits for the context's work; later ones do not.
  rig.launch_spin(stream, TimePoint(1));
  rig.migrator().attached().attach(stream, Address{});
}

OwnContextStream::~OwnContextStream() {
  rig.migrator().attached().detach(stream, Address{});
  rig.machine().wait_stream(stream, never);
  rig.machine().destroy_stream(stream);
  rig.machine().destroy_context(context);
}

}  // namespace vma
