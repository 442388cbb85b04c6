// Goal: whichever driver call fails while memory is exported and imported, the exporter keeps its
// bytes and can move and free them, the importer has all of the memory or none, errors are typed,
// nothing hangs, and what the driver did not take back is counted. If the memory moves meanwhile,
// it does so for both, or for neither. Method: two runtimes of one process, each call of one of
// them failing in turn.

#include "base/clock.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"
#include "support/drivers/fault_driver.hpp"
#include "support/test_machines.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

namespace vma {
namespace {

constexpr std::uint64_t shared_chunk_bytes = 8192;
constexpr std::uint64_t shared_words = 3 * shared_chunk_bytes / 8;

/// A runtime whose driver calls can fail, on a machine with operating system threads.
class Side {
 public:
  Side() : machine_(test_machine("test-2"), {nullptr, 1, 64 << 20, false}) {
    Settings settings;
    settings.cache_bytes_per_gpu = 0;
    settings.hold_limit = std::chrono::seconds(2);
    settings.exportable.descriptor = true;
    auto driver = std::make_unique<FaultDriver>(static_cast<Driver&>(machine_));
    faults_ = driver.get();
    auto parts = std::make_unique<RuntimeParts>(std::move(driver), settings);
    leaked_ = parts->machinery->memory.chunks().ledger().leak_count();
    kept_ = parts->machinery->memory.chunks().ledger().kept_count();
    runtime_ = unique_runtime_of(std::move(parts));
  }

  Runtime& operator*() { return *runtime_; }
  Runtime* operator->() { return runtime_.get(); }
  FaultDriver& faults() { return *faults_; }
  /// Three chunks.
  void* alloc() {
    AllocOptions options;
    options.chunk_bytes = shared_chunk_bytes;
    return runtime_->alloc(3 * shared_chunk_bytes, gpu(0), options);
  }
  std::uint64_t wrong(const void* words, std::uint64_t seed) {
    std::vector<std::uint64_t> found(shared_words);
    runtime_->read(words, std::as_writable_bytes(std::span(found)));
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < shared_words; ++i) wrong += found[i] != seed + i ? 1 : 0;
    return wrong;
  }
  void write(void* words, std::uint64_t seed) {
    std::vector<std::uint64_t> bytes(shared_words);
    for (std::uint64_t i = 0; i < shared_words; ++i) bytes[i] = seed + i;
    runtime_->write(words, std::as_bytes(std::span(bytes)));
  }
  /// Shuts down. Whatever the machine still has was counted as leaked or kept.
  void end() {
    faults_->fail_calls({});
    runtime_->shutdown();
    if (*leaked_ + *kept_ == 0) {
      EXPECT_EQ(machine_.leaks(), std::vector<std::string>());
    }
    runtime_.reset();
  }

 private:
  SimDriver machine_;
  FaultDriver* faults_ = nullptr;
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<const std::atomic<std::uint64_t>> leaked_, kept_;
};

class SharingFaults : public testing::Test {
 protected:
  /// Runs `body`; an error must be typed and due to a failed call.
  static bool attempt(FaultDriver& faults, const std::function<void()>& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      EXPECT_GT(faults.fired(), 0) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not a vma::Error: " << error.what();
    }
    return false;
  }

  static bool no_importer_left(const ExportedAllocation& exported) {
    SteadyClock clock;
    return poll_until(clock, clock.now() + std::chrono::seconds(20),
                      [&] { return exported.importers().empty(); });
  }
};

TEST_F(SharingFaults, AnyCallOfTheImporterMayFail) {
  std::set<Call> failed;
  for (int number = 0;; ++number) {
    SCOPED_TRACE(fmt::format("call {} of the importer fails", number));
    Side exporter, importer;
    void* words = exporter.alloc();
    exporter.write(words, 5);
    const ExportedAllocation exported = exporter->export_allocation(words);
    importer.faults().fail_calls({number});
    void* theirs = nullptr;
    attempt(importer.faults(), [&] { theirs = importer->import_allocation(exported.path()); });
    const int fired_in_import = importer.faults().fired();
    if (theirs != nullptr) {
      if (!attempt(importer.faults(), [&] { importer->free(theirs); })) {
        importer.faults().fail_calls({});
        importer->free(theirs);
      }
    }
    importer->trim(gpu(0));  // Waits for what is released later.
    const bool fired = fired_in_import + importer.faults().fired() > 0;
    failed.merge(importer.faults().failed());
    importer.faults().fail_calls({});
    EXPECT_TRUE(no_importer_left(exported));
    exporter->migrate(words, gpu(1));
    EXPECT_EQ(exporter.wrong(words, 5), 0u);
    theirs = importer->import_allocation(exported.path());
    EXPECT_EQ(importer.wrong(theirs, 5), 0u) << "the next import succeeds";
    importer.end();
    exporter.end();
    if (!fired) break;
  }
  for (const Call call : {Call::import_chunk, Call::reserve, Call::map, Call::grant, Call::unmap,
                          Call::release, Call::unreserve}) {
    EXPECT_TRUE(failed.contains(call)) << to_string(call) << " was never failed";
  }
}

TEST_F(SharingFaults, AnyCallOfTheExporterMayFail) {
  std::set<Call> failed;
  for (int number = 0;; ++number) {
    SCOPED_TRACE(fmt::format("call {} of the exporter fails", number));
    Side exporter, importer;
    void* words = nullptr;
    exporter.faults().fail_calls({number});
    attempt(exporter.faults(), [&] { words = exporter.alloc(); });
    if (words == nullptr) {
      words = exporter.alloc();
    }
    if (!attempt(exporter.faults(), [&] { exporter.write(words, 5); })) exporter.write(words, 5);
    {
      const ExportedAllocation exported = exporter->export_allocation(words);
      void* theirs = nullptr;
      attempt(exporter.faults(), [&] { theirs = importer->import_allocation(exported.path()); });
      if (theirs == nullptr) theirs = importer->import_allocation(exported.path());
      EXPECT_EQ(importer.wrong(theirs, 5), 0u);
      importer->free(theirs);
      EXPECT_TRUE(no_importer_left(exported));
    }
    const bool fired = exporter.faults().fired() > 0;
    failed.merge(exporter.faults().failed());
    exporter.faults().fail_calls({});
    exporter->migrate(words, gpu(1));
    EXPECT_EQ(exporter.wrong(words, 5), 0u);
    exporter->free(words);
    importer.end();
    exporter.end();
    if (!fired) break;
  }
  for (const Call call : {Call::create_exportable, Call::export_chunk}) {
    EXPECT_TRUE(failed.contains(call)) << to_string(call) << " was never failed";
  }
}

/// Blocks are freed in stream order, the first beside the second, so that the last free takes back
/// the import after both.
TEST_F(SharingFaults, AnyCallOfAnImporterOfBlocksMayFail) {
  std::set<Call> failed;
  for (int number = 0;; ++number) {
    SCOPED_TRACE(fmt::format("call {} of the importer fails", number));
    Side exporter, importer;
    PoolOptions options;
    options.chunk_bytes = shared_chunk_bytes;
    const Pool pool = exporter->make_pool(gpu(0), options);
    const Stream stream = exporter->make_stream(gpu(0));
    const ExportedPool exported = exporter->export_pool(pool);
    pool.deallocate(pool.allocate(4 * shared_words * 8, stream), stream);  // One segment for both.
    void *blocks[2], *theirs[2];
    for (void*& block : blocks) block = pool.allocate(shared_words * 8, stream);
    ASSERT_EQ(exported.pointer(blocks[0]).segment, exported.pointer(blocks[1]).segment);
    exporter.write(blocks[0], 5);
    const Stream streams[] = {importer->make_stream(gpu(0)), importer->make_stream(gpu(1))};
    importer.faults().fail_calls({number});
    for (int i = 0; i < 2; ++i) {
      const auto import = [&] {
        theirs[i] = importer->import_pointer(exported.path(), exported.pointer(blocks[i]));
      };
      if (!attempt(importer.faults(), import)) import();
    }
    for (int i = 0; i < 2; ++i) {
      const auto free = [&] { importer->free_async(theirs[i], streams[i]); };
      if (!attempt(importer.faults(), free)) free();
    }
    importer->trim(gpu(0));  // Waits for what is released later.
    const bool fired = importer.faults().fired() > 0;
    failed.merge(importer.faults().failed());
    importer.faults().fail_calls({});
    SteadyClock clock;
    EXPECT_TRUE(poll_until(clock, clock.now() + std::chrono::seconds(20),
                           [&] { return exported.importers().empty(); }));
    exporter->migrate(pool, gpu(1));
    EXPECT_EQ(exporter.wrong(blocks[0], 5), 0u);
    importer.end();
    exporter.end();
    if (!fired) break;
  }
  for (const Call call :
       {Call::import_chunk, Call::record, Call::query_event, Call::is_capturing}) {
    EXPECT_TRUE(failed.contains(call)) << to_string(call) << " was never failed";
  }
}

// --- Moves with importers

class FollowingFaults : public SharingFaults, public testing::WithParamInterface<bool> {
 protected:
  static bool gated() { return GetParam(); }

  /// Everything that two processes share, before anything fails.
  struct Pair {
    Pair() {
      words = exporter.alloc();
      exporter.write(words, 5);
      exported.emplace(exporter->export_allocation(words));
      theirs = importer->import_allocation(exported->path());
      if (!gated()) return;
      exporter->attach(exporter->make_stream(gpu(0)), words);
      importer->attach(importer->make_stream(gpu(1)), theirs);
    }
    void migrate(Place to) {
      MigrateOptions options;
      if (!gated()) return void(exporter->migrate(words, to, options));
      exporter->migrate_async(words, to, options).wait();
    }
    Place place(Side& side, const void* pointer) {
      const std::vector<Extent> extents = side->where(pointer);
      EXPECT_EQ(extents.size(), 1u) << "all chunks, or none";
      return extents.front().at;
    }
    /// Both processes see the same memory at the same place, with all of its bytes.
    void expect_one_memory() {
      EXPECT_EQ(place(exporter, words), place(importer, theirs));
      EXPECT_EQ(exporter.wrong(words, 5), 0u);
      EXPECT_EQ(importer.wrong(theirs, 5), 0u);
      importer.write(theirs, 6);
      EXPECT_EQ(exporter.wrong(words, 6), 0u);
      exporter.write(words, 5);
      EXPECT_EQ(importer.wrong(theirs, 5), 0u);
    }
    void end() {
      importer->free(theirs);
      EXPECT_TRUE(no_importer_left(*exported));
      exported.reset();
      exporter->free(words);
      importer.end();
      exporter.end();
    }

    Side exporter, importer;
    void *words = nullptr, *theirs = nullptr;
    std::optional<ExportedAllocation> exported;
  };

  /// Fails each call of one side during a move in turn. Returns those that were failed.
  static std::set<Call> fail_each(Side Pair::*side) {
    std::set<Call> failed;
    for (int number = 0;; ++number) {
      SCOPED_TRACE(fmt::format("call {} fails", number));
      Pair pair;
      FaultDriver& faults = (pair.*side).faults();
      faults.fail_calls({number});
      attempt(faults, [&] { pair.migrate(gpu(1)); });
      const bool fired = faults.fired() > 0;
      failed.merge(faults.failed());
      faults.fail_calls({});
      pair.expect_one_memory();
      pair.migrate(gpu(1));
      pair.migrate(gpu(0));
      pair.expect_one_memory();
      pair.end();
      if (!fired || testing::Test::HasFailure()) return failed;
    }
  }
};

TEST_P(FollowingFaults, AnyCallOfTheImporterMayFail) {
  const std::set<Call> failed = fail_each(&Pair::importer);
  for (const Call call : {Call::import_chunk, Call::map, Call::grant, Call::unmap}) {
    EXPECT_TRUE(failed.contains(call)) << to_string(call) << " was never failed";
  }
}

TEST_P(FollowingFaults, AnyCallOfTheExporterMayFail) {
  const std::set<Call> failed = fail_each(&Pair::exporter);
  for (const Call call :
       {Call::create_exportable, Call::export_chunk, Call::map, Call::grant, Call::unmap}) {
    EXPECT_TRUE(failed.contains(call)) << to_string(call) << " was never failed";
  }
}

INSTANTIATE_TEST_SUITE_P(Stops, FollowingFaults, testing::Bool(), [](const auto& chosen) {
  return std::string(chosen.param ? "AtAGate" : "UnderAHold");
});

}  // namespace
}  // namespace vma
