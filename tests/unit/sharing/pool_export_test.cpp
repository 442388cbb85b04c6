// Goal: blocks of a pool are used in another process; those of a segment share one import, which
// ends when the last of them is freed and the work before has ended; and neither process can free,
// move or give back what the other one uses. Method: two runtimes of one process.

#include "base/executor.hpp"
#include "unit/pools/pool_rig.hpp"
#include "unit/sharing/sharing_rig.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t block_bytes = 1024;
constexpr std::size_t block_words = block_bytes / sizeof(std::uint64_t);
const ImportOptions patiently{.limit = std::chrono::minutes(1)};

class PoolExportTest : public testing::Test {
 public:
  static PoolOptions exportable_pool() {
    PoolOptions options;
    options.exportable = true;
    options.chunk_bytes = chunk_bytes;
    return options;
  }

 protected:
  PoolExportTest() : pool(exporter.runtime().make_pool(gpu(0), exportable_pool())) {
    exported.emplace(
        exporter.runtime().export_pool(pool, {.import_limit = std::chrono::minutes(1)}));
  }

  std::uint64_t* block(std::size_t bytes = block_bytes) {
    return static_cast<std::uint64_t*>(pool.allocate(bytes, exporter.stream(0)));
  }
  void free(void* words) { pool.deallocate(words, exporter.stream(0)); }
  std::uint64_t* import(const ExportedPointer& pointer) {
    return static_cast<std::uint64_t*>(
        importer.runtime().import_pointer(exported->path(), pointer, patiently));
  }
  std::uint64_t* import(void* words) { return import(exported->pointer(words)); }
  bool no_importer_left() {
    SteadyClock clock;
    return poll_until(clock, soon(), [&] { return exported->importers().empty(); });
  }
  ErrorKind error_of_import(const ExportedPointer& pointer) {
    return kind_of_error([&] { import(pointer); });
  }

  PoolRig exporter, importer;
  Pool pool;
  std::optional<ExportedPool> exported;
};

TEST_F(PoolExportTest, ABlockIsTheSameMemoryInBothProcesses) {
  std::uint64_t* words = block();
  exporter.write(words, block_words, 40);
  std::uint64_t* theirs = import(words);
  EXPECT_EQ(importer.wrong(theirs, block_words, 40), 0u);
  EXPECT_EQ(importer.wrong_for(1, theirs, block_words, 40), 0u);
  importer.fill_by(0, theirs, block_words, 50);
  EXPECT_EQ(exporter.wrong_for(0, words, block_words, 50), 0u);
  importer.runtime().free(theirs);
  EXPECT_TRUE(no_importer_left());
  free(words);
}

TEST_F(PoolExportTest, APathThatIsUsedAgainNamesOtherMemory) {
  const std::string path = exported->path();
  std::uint64_t* words = block();
  std::uint64_t* theirs = import(words);
  exported->close();
  const Pool later = exporter.runtime().make_pool(gpu(0), exportable_pool());
  exported.emplace(exporter.runtime().export_pool(
      later, {.path = path, .import_limit = std::chrono::minutes(1)}));
  void* other = later.allocate(block_bytes, exporter.stream(0));
  exporter.write(static_cast<std::uint64_t*>(other), block_words, 40);
  std::uint64_t* imported = import(other);
  EXPECT_EQ(importer.wrong(imported, block_words, 40), 0u);
  importer.runtime().free(imported);
  importer.runtime().free(theirs);
  EXPECT_TRUE(no_importer_left());
  later.deallocate(other, exporter.stream(0));
  free(words);
}

TEST_F(PoolExportTest, APathThatNoSocketCanHaveIsRefused) {
  const Pool other = exporter.runtime().make_pool(gpu(0), exportable_pool());
  for (const std::string& path : {std::string(100, 'x'), std::string("@abstract")}) {
    EXPECT_EQ(kind_of_error([&] { exporter.runtime().export_pool(other, {.path = path}); }),
              ErrorKind::invalid_argument)
        << path;
  }
}

TEST_F(PoolExportTest, BlocksOfASegmentShareOneImport) {
  std::uint64_t *first = block(), *second = block();
  const ExportedPointer one = exported->pointer(first), two = exported->pointer(second);
  ASSERT_EQ(one.segment, two.segment);
  EXPECT_GE(one.bytes, block_bytes);
  const std::size_t before = importer.runtime().stats().allocations;
  std::uint64_t *their_first = import(one), *their_second = import(two);
  EXPECT_EQ(their_second - their_first, second - first);
  EXPECT_EQ(importer.runtime().stats().allocations, before + 1);
  ASSERT_EQ(exported->importers().size(), 1u);
  EXPECT_EQ(exported->importers()[0].process, getpid());
  exporter.write(second, block_words, 7);
  importer.runtime().free(their_first);
  EXPECT_EQ(importer.wrong(their_second, block_words, 7), 0u) << "the other one stays";
  EXPECT_EQ(kind_of_error([&] { importer.runtime().free(their_first); }),
            ErrorKind::unknown_pointer);
  EXPECT_EQ(exported->importers().size(), 1u);
  importer.runtime().free(their_second);
  EXPECT_TRUE(no_importer_left());
  EXPECT_EQ(kind_of_error([&] { importer.runtime().where(their_second); }),
            ErrorKind::unknown_pointer);
  free(first);
  free(second);
}

TEST_F(PoolExportTest, ABlockThatIsImportedTwiceIsFreedTwice) {
  std::uint64_t* words = block();
  std::uint64_t* theirs = import(words);
  EXPECT_EQ(import(words), theirs);
  importer.runtime().free(theirs);
  EXPECT_EQ(importer.place(theirs), gpu(0));
  EXPECT_EQ(kind_of_error([&] { importer.runtime().free(theirs + 1); }),
            ErrorKind::unknown_pointer);
  importer.runtime().free(theirs);
  EXPECT_EQ(kind_of_error([&] { importer.runtime().free(theirs); }), ErrorKind::unknown_pointer);
  free(words);
}

TEST_F(PoolExportTest, TheLastFreeWaitsForTheWorkBeforeIt) {
  std::uint64_t* words = block();
  std::uint64_t* theirs = import(words);
  const Stream stream = importer.new_stream(0);
  importer.stop(stream);
  importer.runtime().launch(stream, fill_kernel(), {}, {},
                            KernelArguments::of(theirs, block_words, std::uint64_t{9}));
  std::atomic<bool> freed{false};
  std::thread freeing([&] {
    importer.runtime().free(theirs);
    freed = true;
  });
  SteadyClock clock;
  EXPECT_FALSE(poll_until(clock, clock.now() + std::chrono::milliseconds(100),
                          [&] { return freed.load(); }));
  importer.let_go(stream);
  freeing.join();
  EXPECT_TRUE(no_importer_left());
  EXPECT_EQ(exporter.wrong(words, block_words, 9), 0u);
  free(words);
}

TEST_F(PoolExportTest, ASegmentOutlivesTheWorkBeforeEachFree) {
  std::uint64_t *first = block(), *second = block();
  std::uint64_t *their_first = import(first), *their_second = import(second);
  const Stream late = importer.new_stream(0), early = importer.new_stream(1);
  importer.stop(late);
  importer.runtime().launch(late, fill_kernel(), {}, {},
                            KernelArguments::of(their_first, block_words, std::uint64_t{9}));
  importer.runtime().free_async(their_first, late);
  importer.runtime().free_async(their_second, early);
  importer.finish(early);
  EXPECT_EQ(kind_of_error([&] { importer.runtime().free(their_first); }),
            ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { importer.runtime().free(their_second); }),
            ErrorKind::unknown_pointer);
  {
    SlowCallQueue& slow_calls =
        parts_of(importer.runtime()).machinery->memory.chunks().slow_calls();
    const MutexLock turn(slow_calls.turn());
    slow_calls.run_here();  // If it could be released now, it would be.
  }
  EXPECT_FALSE(exported->importers().empty());
  importer.let_go(late);
  EXPECT_TRUE(no_importer_left());
  EXPECT_EQ(exporter.wrong(first, block_words, 9), 0u);
  free(first);
  free(second);
}

TEST_F(PoolExportTest, AnImportedBlockIsFreedThroughAnyPool) {
  std::uint64_t* theirs = import(block());
  importer.runtime().make_pool(gpu(1)).deallocate(theirs, importer.stream(1));
  EXPECT_TRUE(no_importer_left());
}

TEST_F(PoolExportTest, AFreeThatIsRefusedChangesNothing) {
  std::uint64_t* words = block();
  std::uint64_t* theirs = import(words);
  const Stream stream = importer.new_stream(0);
  const BoundStream bound = parts_of(importer.runtime()).machinery->launcher.bind(stream);
  importer.driver().begin_capture(bound, CaptureMode::relaxed);
  EXPECT_EQ(kind_of_error([&] { importer.runtime().free_async(theirs, stream); }),
            ErrorKind::invalid_argument);
  importer.driver().destroy_graph(importer.driver().end_capture(bound));
  {
    const Pin pin = importer.runtime().pin(theirs);
    EXPECT_EQ(kind_of_error([&] { importer.runtime().free_async(theirs, stream); }),
              ErrorKind::pinned);
    EXPECT_EQ(kind_of_error([&] { importer.runtime().free(theirs); }), ErrorKind::pinned);
  }
  exporter.write(words, block_words, 3);
  EXPECT_EQ(importer.wrong(theirs, block_words, 3), 0u);
  importer.runtime().free_async(theirs, stream);
  EXPECT_TRUE(no_importer_left());
}

TEST_F(PoolExportTest, ASegmentMovesWithTheProcessesThatHaveItsBlocks) {
  std::uint64_t* words = block();
  exporter.write(words, block_words, 5);
  std::uint64_t* theirs = import(exported->pointer(words));
  exporter.runtime().migrate(pool, gpu(1));
  EXPECT_EQ(importer.place(theirs), gpu(1));
  importer.write(theirs, block_words, 6);
  EXPECT_EQ(exporter.wrong(words, block_words, 6), 0u);
  importer.runtime().free(theirs);
}

TEST_F(PoolExportTest, ASegmentIsImportedWhereItLies) {
  std::uint64_t* words = block();
  exporter.write(words, block_words, 5);
  const ExportedPointer pointer = exported->pointer(words);
  exporter.runtime().migrate(pool, gpu(1));
  std::uint64_t* theirs = import(pointer);
  EXPECT_EQ(importer.place(theirs), gpu(1));
  EXPECT_EQ(importer.wrong(theirs, block_words, 5), 0u);
  importer.runtime().free(theirs);
  ASSERT_TRUE(no_importer_left());
  exporter.runtime().migrate(pool, gpu(0));
  EXPECT_EQ(exporter.wrong(words, block_words, 5), 0u);
  theirs = import(pointer);
  EXPECT_EQ(importer.place(theirs), gpu(0));
  importer.runtime().free(theirs);
  free(words);
}

TEST_F(PoolExportTest, ThePoolGivesASegmentBackOnceNobodyHasItImported) {
  std::uint64_t* words = block();
  const std::uint64_t number = exported->pointer(words).segment;
  std::uint64_t* theirs = import(words);
  free(words);
  exporter.runtime().synchronize(exporter.stream(0));
  EXPECT_EQ(pool.trim(0), 0u) << "another process uses it";
  EXPECT_GT(pool.stats().reserved_bytes, 0u);
  importer.runtime().free(theirs);
  ASSERT_TRUE(no_importer_left());
  EXPECT_GT(pool.trim(0), 0u);
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
  words = block();
  const ExportedPointer again = exported->pointer(words);
  EXPECT_EQ(again.segment, number + 1) << "numbers are never used for another segment";
  EXPECT_EQ(error_of_import({number, again.offset, again.bytes}), ErrorKind::peer_failure);
  importer.runtime().free(import(again));
  free(words);
}

TEST_F(PoolExportTest, ADestroyedPoolEndsWithItsLastImporter) {
  std::uint64_t* words = block();
  std::uint64_t* theirs = import(words);
  pool.destroy();
  free(words);
  EXPECT_GT(pool.stats().reserved_bytes, 0u);
  importer.runtime().free(theirs);
  ASSERT_TRUE(no_importer_left());
  SteadyClock clock;
  EXPECT_TRUE(poll_until(clock, soon(), [&] { return pool.stats().reserved_bytes == 0; }));
}

TEST_F(PoolExportTest, AClosedExportLeavesImportersTheirMemory) {
  std::uint64_t *words = block(), *other = block();
  exporter.write(words, block_words, 5);
  const ExportedPointer pointer = exported->pointer(words);
  std::uint64_t* theirs = import(pointer);
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().export_pool(pool); }), ErrorKind::busy);
  exported->close();
  EXPECT_EQ(kind_of_error([&] { exported->pointer(other); }), ErrorKind::invalid_argument);
  EXPECT_EQ(importer.wrong(theirs, block_words, 5), 0u);
  importer.runtime().free(theirs);
  EXPECT_EQ(error_of_import(pointer), ErrorKind::peer_failure);
  exporter.runtime().migrate(pool, gpu(1));
  const ExportedPool second = exporter.runtime().export_pool(pool);
  EXPECT_NE(second.path(), exported->path());
  std::uint64_t* again = static_cast<std::uint64_t*>(
      importer.runtime().import_pointer(second.path(), second.pointer(words), patiently));
  EXPECT_EQ(importer.wrong(again, block_words, 5), 0u);
  importer.runtime().free(again);
  free(words);
  free(other);
}

TEST_F(PoolExportTest, OnlyBlocksOfThePoolAreExported) {
  std::uint64_t* words = block();
  const auto refused = [&](void* pointer) {
    return kind_of_error([&] { exported->pointer(pointer); });
  };
  Pool other = exporter.runtime().make_pool(gpu(0), exportable_pool());
  void* foreign = other.allocate(block_bytes, exporter.stream(0));
  void* plain = exporter.runtime().alloc(8, gpu(0));
  for (void* pointer : {static_cast<void*>(words + 1), foreign, plain, static_cast<void*>(&other)})
    EXPECT_EQ(refused(pointer), ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().export_allocation(words); }),
            ErrorKind::unsupported);
  free(words);
  EXPECT_EQ(refused(words), ErrorKind::unknown_pointer) << "it was freed";
  Pool closed = exporter.runtime().make_pool(gpu(0));
  const ExportedPool in_vain = exporter.runtime().export_pool(closed);
  void* kept = closed.allocate(block_bytes, exporter.stream(0));
  const std::string text = error_text([&] { in_vain.pointer(kept); });
  EXPECT_NE(text.find("unsupported"), std::string::npos) << text;
  EXPECT_NE(text.find("PoolOptions::exportable"), std::string::npos) << text;
  closed.deallocate(kept, exporter.stream(0));
  other.deallocate(foreign, exporter.stream(0));
}

TEST_F(PoolExportTest, NumbersThatNameNoBlockAreRefused) {
  const ExportedPointer good = exported->pointer(block());
  for (const ExportedPointer bad : {ExportedPointer{good.segment, good.offset, 0},
                                    {good.segment, std::uint64_t{1} << 40, 8},
                                    {good.segment, good.offset, UINT64_MAX},
                                    {good.segment, UINT64_MAX, 8}}) {
    EXPECT_EQ(error_of_import(bad), ErrorKind::invalid_argument);
  }
  EXPECT_TRUE(no_importer_left()) << "an import that failed leaves nothing";
  EXPECT_EQ(error_of_import({good.segment + 1, good.offset, good.bytes}), ErrorKind::peer_failure);
  EXPECT_EQ(kind_of_error([&] {
              importer.runtime().import_pointer(exported->path(), good,
                                                {.limit = std::chrono::milliseconds(0)});
            }),
            ErrorKind::invalid_argument);
  importer.runtime().free(import(good));
  importer.check();
}

TEST(PoolExport, EitherRuntimeMayEndFirst) {
  RuntimeRig exporter, importer;
  const Pool pool = exporter.runtime().make_pool(gpu(0), PoolExportTest::exportable_pool());
  auto* words = static_cast<std::uint64_t*>(pool.allocate(block_bytes, exporter.stream(0)));
  exporter.write(words, block_words, 5);
  ExportedPool exported = exporter.runtime().export_pool(pool);
  const ExportedPointer pointer = exported.pointer(words);
  const auto import = [&] {
    return static_cast<std::uint64_t*>(
        importer.runtime().import_pointer(exported.path(), pointer, patiently));
  };
  std::uint64_t* theirs = import();
  importer.runtime().free_async(import(), importer.stream(0));
  exporter.runtime().shutdown();
  EXPECT_TRUE(exporter.machine().leaks().empty());
  EXPECT_EQ(importer.wrong(theirs, block_words, 5), 0u);
  EXPECT_EQ(kind_of_error([&] { exported.pointer(words); }), ErrorKind::driver_gone);
  exported.close();
  importer.runtime().shutdown();
  EXPECT_TRUE(importer.machine().leaks().empty()) << "nor the event of a free";
}

TEST_F(PoolExportTest, ThreadsImportAndFreeBesideEachOther) {
  constexpr int threads = 6, rounds = 20;
  std::vector<std::uint64_t*> blocks;
  std::vector<ExportedPointer> pointers;
  for (std::uint64_t i = 0; i < threads; ++i) {
    blocks.push_back(block());
    exporter.write(blocks.back(), block_words, 100 * i);
    pointers.push_back(exported->pointer(blocks.back()));
  }
  std::atomic<std::uint64_t> wrong{0};
  {
    ThreadedExecutor executor;
    std::vector<std::unique_ptr<Task>> tasks;
    for (std::size_t i = 0; i < threads; ++i) {
      tasks.push_back(executor.spawn("importer", [&, i] {
        for (int round = 0; round < rounds; ++round) {
          std::uint64_t* const theirs = import(pointers[i]);
          wrong += importer.wrong(theirs, block_words, 100 * i);
          if (round % 2 == 0) {
            importer.runtime().free(theirs);
          } else {
            importer.runtime().free_async(theirs, importer.stream(static_cast<int>(i) % 2));
          }
        }
      }));
    }
    for (const auto& task : tasks) task->join();
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(no_importer_left());
  for (std::uint64_t* each : blocks) free(each);
}

}  // namespace
}  // namespace vma
