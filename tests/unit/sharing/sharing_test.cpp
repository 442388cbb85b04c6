// Goal: exported memory is used from two sides and leaves nothing behind; an import is memory like
// any other, except that it stays. Method: two runtimes of one process on machines of their own.

#include "unit/sharing/sharing_rig.hpp"

#include <filesystem>

namespace vma {
namespace {

TEST_F(SharingTest, ImportedMemoryIsUsedLikeAnyOther) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported, {.tag = "theirs"});
  EXPECT_EQ(importer.place(theirs), gpu(0));
  EXPECT_EQ(importer.runtime().size(theirs), 3 * chunk_bytes);
  EXPECT_EQ(importer.wrong(theirs, words_shared, 40), 0u);
  EXPECT_EQ(importer.wrong_for(1, theirs, words_shared, 40), 0u);
  importer.write(theirs, words_shared, 50);
  EXPECT_EQ(exporter.wrong_for(0, words, words_shared, 50), 0u);
  importer.check_invariants();
  importer.runtime().free(theirs);
  EXPECT_EQ(kind_of_error([&] { importer.runtime().size(theirs); }), ErrorKind::unknown_pointer);
  importer.check_invariants();
  EXPECT_TRUE(no_importer_left(exported));
}

TEST_F(SharingTest, MemoryAtAHostNodeIsShared) {
  std::uint64_t* at_host = exporter.alloc(2 * chunk_bytes, host(0));
  exporter.write(at_host, 2 * chunk_bytes / 8, 9);
  const ExportedAllocation exported = exporter.runtime().export_allocation(at_host);
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(importer.place(theirs), host(0));
  const HostView view = importer.runtime().host_view(theirs, 16);
  EXPECT_EQ(reinterpret_cast<const std::uint64_t*>(view.bytes().data())[1], 10u);
}

TEST_F(SharingTest, AnImportTakesNoRoomOfItsOwn) {
  const ExportedAllocation exported = share();
  const auto booked = [&] {
    return parts_of(importer.runtime()).machinery->memory.chunks().ledger().account(gpu(0));
  };
  const std::uint64_t before = booked().total();
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(booked().total(), before);
  importer.runtime().free(theirs);
  importer.check_invariants();
  EXPECT_EQ(booked().total(), before);
}

TEST_F(SharingTest, AnExportAloneKeepsNothingInPlace) {
  const ExportedAllocation exported = share();
  exporter.runtime().migrate(words, gpu(1));
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(importer.place(theirs), gpu(1));
  ASSERT_EQ(exported.importers().size(), 1u);
  EXPECT_EQ(exported.importers()[0].process, getpid());
  EXPECT_EQ(exported.importers()[0].user, geteuid());
  importer.runtime().free(theirs);
  ASSERT_TRUE(no_importer_left(exported));
  exporter.runtime().migrate(words, gpu(0));
  EXPECT_EQ(exporter.wrong(words, words_shared, 40), 0u);
}

/// The copy at the host would be stale: it was clean only as far as this process knew.
TEST_F(SharingTest, NoCleanCopySurvivesAnImporter) {
  const ExportedAllocation exported = share();
  exporter.runtime().migrate(words, host(0));
  const ReadOnly nobody_writes = exporter.runtime().read_only(words);
  MigrateOptions options;
  options.keep_clean_copy = true;
  exporter.runtime().migrate(words, gpu(0), options);
  std::uint64_t* theirs = import(exported);
  importer.write(theirs, words_shared, 60);
  importer.runtime().free(theirs);
  ASSERT_TRUE(no_importer_left(exported));
  exporter.runtime().migrate(words, host(0), options);
  EXPECT_EQ(exporter.wrong(words, words_shared, 60), 0u);
}

TEST_F(SharingTest, ExportedMemoryIsNotFreedByAccident) {
  ExportedAllocation exported = share();
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().free(words); }), ErrorKind::pinned);
  exported.close();
  exported.close();
  exporter.runtime().free(words);
  exporter.check_invariants();
}

TEST_F(SharingTest, AClosedExportLeavesItsPathToOthers) {
  ExportedAllocation closed = share();
  const std::string path = closed.path();
  closed.close();
  EXPECT_FALSE(std::filesystem::exists(path));
  const ExportedAllocation next = share({.path = path});
  import(next);
}

TEST_F(SharingTest, MemoryThatWasImportedIsNotReused) {
  std::uint64_t* theirs = nullptr;
  {
    const ExportedAllocation exported = share();
    theirs = import(exported);
  }
  exporter.runtime().free(words);
  std::uint64_t* next = exporter.alloc(3 * chunk_bytes, gpu(0));
  exporter.write(next, words_shared, 1);
  importer.write(theirs, words_shared, 70);
  EXPECT_EQ(exporter.wrong(next, words_shared, 1), 0u);
  EXPECT_EQ(importer.wrong(theirs, words_shared, 70), 0u);
  exporter.check_invariants();
}

TEST_F(SharingTest, AnImportOutlivesTheRuntimeThatExports) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  exporter.runtime().shutdown();
  EXPECT_TRUE(exporter.machine().leaks().empty());
  EXPECT_EQ(importer.wrong(theirs, words_shared, 40), 0u);
  EXPECT_EQ(kind_of_error([&] { import(exported); }), ErrorKind::peer_failure);
}

TEST_F(SharingTest, AShutdownLetsGoOfImports) {
  const ExportedAllocation exported = share();
  import(exported);
  importer.runtime().shutdown();
  EXPECT_TRUE(importer.machine().leaks().empty());
  EXPECT_TRUE(no_importer_left(exported));
}

TEST_F(SharingTest, WithoutTheOptionMemoryDoesNotLeaveAndTheErrorNamesIt) {
  RuntimeRig closed;
  std::uint64_t* kept = closed.alloc(chunk_bytes, gpu(0));
  const std::string text = error_text([&] { closed.runtime().export_allocation(kept); });
  EXPECT_NE(text.find("unsupported"), std::string::npos) << text;
  EXPECT_NE(text.find("AllocOptions::exportable"), std::string::npos) << text;
  EXPECT_NE(text.find("VMART_EXPORTABLE"), std::string::npos) << text;
  closed.runtime().free(kept);
}

/// Also beside cached chunks that cannot be exported, and wherever it has moved.
TEST_F(SharingTest, AnAllocationMayAskForItself) {
  RuntimeRig closed;
  closed.runtime().free(closed.alloc(chunk_bytes, gpu(0)));
  closed.runtime().free(closed.alloc(chunk_bytes, gpu(1)));
  closed.runtime().free(closed.alloc(chunk_bytes, host(0)));
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  options.exportable = true;
  auto* shared = static_cast<std::uint64_t*>(closed.runtime().alloc(chunk_bytes, gpu(0), options));
  closed.write(shared, chunk_bytes / 8, 70);
  for (const Place at : {gpu(0), gpu(1), host(0), gpu(0)}) {
    closed.runtime().migrate(shared, at);
    const ExportedAllocation exported = closed.runtime().export_allocation(shared);
    std::uint64_t* theirs = import(exported);
    EXPECT_EQ(importer.wrong(theirs, chunk_bytes / 8, 70), 0u) << to_string(at);
    importer.runtime().free(theirs);
    ASSERT_TRUE(no_importer_left(exported));
  }
  closed.runtime().free(shared);
  closed.check_invariants();
}

/// Simulated machines refuse fabric handles, as real ones without IMEX do.
TEST_F(SharingTest, WhatTheDriverRefusesIsLeftOut) {
  RuntimeOptions options;
  options.exportable = Exportable{.descriptor = true, .fabric = true, .rdma = true};
  RuntimeRig rig("test-2", options);
  std::uint64_t* kept = rig.alloc(chunk_bytes, gpu(0));
  const ExportedAllocation exported = rig.runtime().export_allocation(kept);
  EXPECT_FALSE(exported.path().empty());
}

TEST_F(SharingTest, BadArgumentsAreRefused) {
  Runtime& runtime = exporter.runtime();
  const auto kind = [&](const ExportOptions& options) {
    return kind_of_error([&] { runtime.export_allocation(words, options); });
  };
  EXPECT_EQ(kind({.importers_max = 0}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.import_limit = std::chrono::milliseconds(0)}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.users = {1}}), ErrorKind::invalid_argument) << "no folder for them";
  EXPECT_EQ(kind({.path = "/no/such/folder/socket"}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { runtime.export_allocation(this); }), ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { runtime.export_allocation(words + 1); }),
            ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { runtime.import_allocation(""); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { runtime.import_allocation(std::string(300, 'a')); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { runtime.import_allocation("/tmp"); }), ErrorKind::peer_failure);
  const ExportedAllocation exported = share();
  EXPECT_EQ(kind_of_error([&] { runtime.import_allocation(exported.path(), {.limit = {}}); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.path = exported.path()}), ErrorKind::busy);
}

}  // namespace
}  // namespace vma
