// Goal: whoever imports gets memory that it can map, wherever it lay, and later moves do not take
// it away. Method: importers that use one of two GPUs; pins, moves and policies that come between.

#include "unit/sharing/sharing_rig.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

RuntimeOptions only_gpu(int which) {
  RuntimeOptions options;
  options.devices = {which};
  return options;
}

class VisibleGpus : public SharingTest {
 protected:
  VisibleGpus() { options.deadline = std::chrono::seconds(20); }
  std::uint64_t* import_by(RuntimeRig& rig, const ExportedAllocation& exported) {
    return static_cast<std::uint64_t*>(
        rig.runtime().import_allocation(exported.path(), {.limit = std::chrono::minutes(1)}));
  }
  void expect_shared(RuntimeRig& other, std::uint64_t* theirs, Place at) {
    EXPECT_EQ(exporter.place(words), at);
    EXPECT_EQ(other.place(theirs), at);
    EXPECT_EQ(other.wrong_for(0, theirs, words_shared, 40), 0u) << "as its own GPU reads it";
    other.fill_by(0, theirs, words_shared, 900);
    EXPECT_EQ(exporter.wrong_for(1, words, words_shared, 900), 0u);
    exporter.write(words, words_shared, 40);
    exporter.check_invariants();
    other.check_invariants();
  }
  bool importing(const ExportedAllocation& exported) {
    SteadyClock clock;
    return poll_until(clock, soon(), [&] { return !exported.importers().empty(); });
  }

  MigrateOptions options;
};

TEST_F(VisibleGpus, MemoryComesBackFromAGpuThatTheImporterDoesNotUse) {
  RuntimeRig narrow("test-2", only_gpu(0));
  const ExportedAllocation exported = share();
  exporter.runtime().migrate(words, gpu(1), options);
  expect_shared(narrow, import_by(narrow, exported), gpu(0));
}

TEST_F(VisibleGpus, MemoryOfAnotherGpuComesToTheImportersOwn) {
  RuntimeRig narrow("test-2", only_gpu(1));
  const ExportedAllocation exported = share();
  expect_shared(narrow, import_by(narrow, exported), gpu(1));
}

TEST_F(VisibleGpus, OnlyChunksOutOfReachMove) {
  RuntimeRig narrow("test-2", only_gpu(1));
  exporter.runtime().migrate(words, chunk_bytes, chunk_bytes, host(0), options);
  const ExportedAllocation exported = share();
  std::uint64_t* const theirs = import_by(narrow, exported);
  std::vector<Place> places;
  for (const Extent& extent : narrow.runtime().where(theirs)) places.push_back(extent.at);
  EXPECT_EQ(places, (std::vector{gpu(1), host(0), gpu(1)}));
  EXPECT_EQ(narrow.wrong(theirs, words_shared, 40), 0u);
}

TEST_F(VisibleGpus, WithoutACommonGpuMemoryGoesToTheHost) {
  RuntimeRig first("test-2", only_gpu(0)), second("test-2", only_gpu(1));
  const ExportedAllocation exported = share();
  std::uint64_t* const of_first = import_by(first, exported);
  EXPECT_EQ(first.place(of_first), gpu(0));
  std::uint64_t* const of_second = import_by(second, exported);
  expect_shared(second, of_second, host(0));
  expect_shared(first, of_first, host(0));
}

TEST_F(VisibleGpus, AMoveToWhereAnImporterCannotFollowNamesIt) {
  RuntimeRig narrow("test-2", only_gpu(0));
  const ExportedAllocation exported = share();
  std::uint64_t* const theirs = import_by(narrow, exported);
  const auto move = [&] { exporter.runtime().migrate(words, gpu(1), options); };
  EXPECT_EQ(kind_of_error(move), ErrorKind::unreachable);
  const std::string text = error_text(move);
  for (const std::string& part : {"process " + std::to_string(getpid()), std::string("gpu(1)"),
                                  std::string("CUDA_VISIBLE_DEVICES")}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  options.scope = StopScope::hold;
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate_async(words, gpu(1), options).wait(); }),
            ErrorKind::unreachable);
  expect_shared(narrow, theirs, gpu(0));
  exporter.runtime().migrate(words, host(0), options);
  expect_shared(narrow, theirs, host(0));
  narrow.runtime().free(theirs);
  ASSERT_TRUE(no_importer_left(exported));
  exporter.runtime().migrate(words, gpu(1), options);
  EXPECT_EQ(exporter.place(words), gpu(1));
}

TEST_F(VisibleGpus, AnImportWaitsForAPinToEnd) {
  RuntimeRig narrow("test-2", only_gpu(1));
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = nullptr;
  std::thread importing_thread;
  {
    const Pin pin = exporter.runtime().pin(words);
    importing_thread = std::thread([&] { theirs = import_by(narrow, exported); });
    EXPECT_TRUE(importing(exported));
  }
  importing_thread.join();
  expect_shared(narrow, theirs, gpu(1));
}

TEST_F(VisibleGpus, MemoryThatStaysPinnedIsRefused) {
  RuntimeRig narrow("test-2", only_gpu(1));
  const ExportedAllocation exported = share({.import_limit = std::chrono::milliseconds(200)});
  const Pin pin = exporter.runtime().pin(words);
  const std::string text = error_text([&] { import_by(narrow, exported); });
  for (const char* part : {"pinned", "gpu(0)", "CUDA_VISIBLE_DEVICES"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_TRUE(no_importer_left(exported));
  EXPECT_EQ(exporter.place(words), gpu(0));
}

/// The program moves it to and fro meanwhile; from the importer's first word on, no longer away.
TEST_F(VisibleGpus, AnImportWaitsForMovesThatAreUnderWay) {
  RuntimeRig narrow("test-2", only_gpu(0));
  const ExportedAllocation exported = share();
  std::atomic<bool> done = false;
  std::thread migrator([&] {
    for (int to = 1; !done; to = 1 - to) {
      try {
        exporter.runtime().migrate(words, gpu(to), options);
      } catch (const Error& error) {
        EXPECT_TRUE(error.kind() == ErrorKind::unreachable || error.kind() == ErrorKind::busy)
            << error.what();
      }
    }
  });
  constexpr int rounds = 20;
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t* const theirs = import_by(narrow, exported);
    EXPECT_EQ(narrow.place(theirs), gpu(0));
    EXPECT_EQ(narrow.wrong(theirs, words_shared, 40), 0u);
    narrow.runtime().free(theirs);
  }
  done = true;
  migrator.join();
}

/// Of the version before, whose first message names no GPUs.
TEST_F(VisibleGpus, APeerThatNamesNoGpusGetsTheMemoryWhereItLies) {
  const ExportedAllocation exported = share();
  exporter.runtime().migrate(words, gpu(1), options);
  ShareChannel old_peer = peer(exported);
  std::vector<std::byte> hello = encode(message_of(ShareKind::hello));
  hello[4] = std::byte{share_version_oldest};
  hello.resize(hello.size() - 4);  // How many GPUs.
  say(old_peer, {reinterpret_cast<const char*>(hello.data()), hello.size()});
  EXPECT_EQ(old_peer.receive(soon()).kind, ShareKind::offer);
  EXPECT_EQ(exporter.place(words), gpu(1));
}

}  // namespace
}  // namespace vma
