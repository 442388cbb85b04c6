// Goal: memory is really shared between processes, and a process that dies, stands, belongs to
// another user or breaks the protocol costs the other one neither bytes nor time. Method: two
// processes of `share_peer` on simulated machines, told line by line.

#include "control/descriptor.hpp"
#include "support/sanitizer.hpp"
#include "unit/sharing/peer_process.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr unsigned nobody = 65534;

class TwoProcesses : public testing::Test {
 protected:
  /// Exports memory of several chunks with a pattern. Returns the path.
  std::string exported(const std::string& options = "") {
    EXPECT_EQ(exporter.ask("alloc 5120"), "allocated");
    EXPECT_EQ(exporter.ask("fill 100"), "filled");
    return path_in(exporter.ask("export" + options));
  }
  static std::string path_in(const std::string& answer) {
    EXPECT_EQ(answer.find("exported /"), 0u) << answer;
    return answer.substr(answer.find(' ') + 1);
  }
  static std::string import_line(const std::string& path, int limit_ms = 20'000) {
    return fmt::format("import {} {}", path, limit_ms);
  }
  void share() { ASSERT_EQ(importer.ask(import_line(exported())), "imported 5120"); }
  static bool has(const std::string& answer, const std::string& words) {
    return answer.find(words) != std::string::npos;
  }
  /// The exporter finds out by itself that a process is gone.
  bool becomes(const std::string& question, const std::string& answer) {
    constexpr int questions_max = 100'000;
    for (int i = 0; i < questions_max; ++i) {
      const std::string found = exporter.ask(question);
      if (found == answer) return true;
      if (found == "ended" || found == "no answer") return false;
    }
    return false;
  }

  PeerProcess exporter, importer;
};

TEST_F(TwoProcesses, WhatOneWritesTheOtherReads) {
  share();
  EXPECT_EQ(importer.ask("wrong 100"), "wrong 0");
  EXPECT_EQ(importer.ask("fill 7000"), "filled");
  EXPECT_EQ(exporter.ask("wrong 7000"), "wrong 0");
  EXPECT_EQ(exporter.ask("fill 8000"), "filled");
  EXPECT_EQ(importer.ask("wrong 8000"), "wrong 0");
}

TEST_F(TwoProcesses, AnImporterCountsUntilItFreesTheMemory) {
  share();
  EXPECT_EQ(exporter.ask("importers"), fmt::format("importers {}", importer.id()));
  EXPECT_EQ(importer.ask("free"), "freed");
  EXPECT_TRUE(becomes("importers", "importers"));
  EXPECT_EQ(exporter.ask("move"), "moved");
  EXPECT_EQ(exporter.ask("wrong 100"), "wrong 0");
}

TEST_F(TwoProcesses, ImportedMemoryIsMovedByItsExporterOnly) {
  share();
  const std::string refused = importer.ask("move");
  EXPECT_TRUE(has(refused, "pinned") && has(refused, fmt::format("process {}", exporter.id())))
      << refused;
  EXPECT_TRUE(has(importer.ask("export"), "unsupported"));
}

TEST_F(TwoProcesses, MemoryMovesBetweenTwoImports) {
  const std::string path = exported();
  ASSERT_EQ(importer.ask(import_line(path)), "imported 5120");
  EXPECT_EQ(importer.ask("free"), "freed");
  EXPECT_TRUE(becomes("importers", "importers"));
  EXPECT_EQ(exporter.ask("move"), "moved");
  ASSERT_EQ(importer.ask(import_line(path)), "imported 5120");
  EXPECT_EQ(importer.ask("wrong 100"), "wrong 0");
}

TEST_F(TwoProcesses, AKilledImporterLetsTheMemoryMove) {
  share();
  importer.kill();
  EXPECT_TRUE(becomes("importers", "importers"));
  EXPECT_EQ(exporter.ask("move"), "moved");
  EXPECT_EQ(exporter.ask("wrong 100"), "wrong 0");
  EXPECT_EQ(exporter.ask("forget"), "forgotten");
  EXPECT_EQ(exporter.ask("free"), "freed");
  EXPECT_EQ(exporter.end(), 0);
}

/// A forked child keeps the connections of its parent open, and may outlive it.
TEST_F(TwoProcesses, AKilledImporterIsNoticedBesideItsForkedChild) {
  share();
  ASSERT_EQ(importer.ask("fork"), "forked");
  importer.kill();
  EXPECT_TRUE(becomes("importers", "importers"));
  EXPECT_EQ(exporter.ask("move"), "moved");
}

TEST_F(TwoProcesses, AForkedChildDoesNotKeepAnImportAlive) {
  share();
  ASSERT_EQ(importer.ask("fork"), "forked");
  EXPECT_EQ(importer.ask("free"), "freed");
  EXPECT_TRUE(becomes("importers", "importers"));
  EXPECT_EQ(exporter.ask("move"), "moved");
}

TEST_F(TwoProcesses, AKilledExporterIsNoticedBesideItsForkedChild) {
  const std::string path = exported();
  ASSERT_EQ(exporter.ask("fork"), "forked");
  exporter.kill();
  EXPECT_TRUE(has(importer.ask(import_line(path)), "peer_failure")) << "and not at the limit";
}

/// The next export of this user finds that nobody serves it.
TEST_F(TwoProcesses, TheSocketOfADeadExporterIsRemovedDespiteItsForkedChild) {
  const std::string path = exported();
  ASSERT_EQ(exporter.ask("fork"), "forked");
  exporter.kill();
  EXPECT_EQ(importer.ask("alloc 5120"), "allocated");
  path_in(importer.ask("export"));
  struct stat status {};
  EXPECT_NE(lstat(path.c_str(), &status), 0);
}

TEST_F(TwoProcesses, AStoppedImporterCostsItsExporterNothingThatACloseDoesNotReturn) {
  share();
  importer.stop();
  EXPECT_TRUE(has(exporter.ask("move 1 100"), "busy"));
  EXPECT_TRUE(has(exporter.ask("free"), "ExportedAllocation"));
  EXPECT_EQ(exporter.ask("close"), "closed");
  EXPECT_EQ(exporter.ask("move"), "moved");
  EXPECT_EQ(exporter.ask("fill 300"), "filled");
  EXPECT_EQ(exporter.ask("wrong 300"), "wrong 0");
  importer.go_on();
  EXPECT_EQ(importer.ask("wrong 100"), "wrong 0") << "it keeps what it had";
  EXPECT_EQ(importer.ask("free"), "freed");
}

TEST_F(TwoProcesses, MemoryThatAnImporterKeepsIsNeverUsedForAnythingElse) {
  share();
  EXPECT_EQ(exporter.ask("forget"), "forgotten");
  EXPECT_EQ(exporter.ask("free"), "freed");
  EXPECT_EQ(exporter.ask("alloc 5120"), "allocated");
  EXPECT_EQ(exporter.ask("fill 500"), "filled");
  EXPECT_EQ(importer.ask("fill 900"), "filled");
  EXPECT_EQ(exporter.ask("wrong 500"), "wrong 0");
  EXPECT_EQ(importer.ask("wrong 900"), "wrong 0");
}

TEST_F(TwoProcesses, AKilledExporterLeavesItsImportersTheirMemory) {
  const std::string path = exported();
  ASSERT_EQ(importer.ask(import_line(path)), "imported 5120");
  exporter.kill();
  EXPECT_EQ(importer.ask("wrong 100"), "wrong 0");
  EXPECT_EQ(importer.ask("fill 200"), "filled");
  EXPECT_EQ(importer.ask("wrong 200"), "wrong 0");
  EXPECT_EQ(importer.ask("free"), "freed");
  EXPECT_TRUE(has(importer.ask(import_line(path)), "peer_failure"));
  EXPECT_EQ(importer.end(), 0);
}

TEST_F(TwoProcesses, AStoppedExporterIsNotWaitedForForEver) {
  const std::string path = exported();
  exporter.stop();
  EXPECT_TRUE(has(importer.ask(import_line(path, 50)), "busy"));
  exporter.go_on();
  EXPECT_TRUE(becomes("importers", "importers")) << "the given up import does not pin";
  EXPECT_EQ(importer.ask(import_line(path)), "imported 5120");
}

TEST_F(TwoProcesses, TheSocketGoesWithItsExporter) {
  const std::string path = exported();
  struct stat status {};
  ASSERT_EQ(lstat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(exporter.end(), 0) << "with the export still open";
  EXPECT_NE(lstat(path.c_str(), &status), 0);
}

TEST_F(TwoProcesses, AnImporterWithoutDescriptorsIsToldSo) {
  const std::string path = exported();
  ASSERT_EQ(importer.ask("files 12"), "limited");
  const std::string refused = importer.ask(import_line(path));
  EXPECT_TRUE(has(refused, "out_of_memory") || has(refused, "driver_failure")) << refused;
  EXPECT_TRUE(becomes("importers", "importers"));
  EXPECT_EQ(exporter.ask("move"), "moved");
}

TEST_F(TwoProcesses, AnImporterWithoutDescriptorsFollowsOnceItHasSome) {
  if (under_address_sanitizer) GTEST_SKIP() << "with it comes UBSan, which needs descriptors";
  share();
  ASSERT_EQ(importer.ask("files 12"), "limited");
  const std::string refused = exporter.ask("move 1");
  EXPECT_TRUE(has(refused, "out_of_memory") &&
              has(refused, fmt::format("process {}", importer.id())))
      << refused;
  EXPECT_EQ(importer.ask("wrong 100"), "wrong 0");
  ASSERT_EQ(importer.ask("files 1024"), "limited");
  EXPECT_EQ(exporter.ask("move 1"), "moved");
  EXPECT_EQ(importer.ask("wrong 100"), "wrong 0");
}

TEST_F(TwoProcesses, AnExporterWithoutDescriptorsLeftExportsAgainOnceItHasSome) {
  ASSERT_EQ(exporter.ask("files 64"), "limited");
  std::string answer = "allocated";
  constexpr int tries = 30;
  for (int i = 0; i < tries && answer == "allocated"; ++i) answer = exporter.ask("alloc 5120");
  EXPECT_TRUE(has(answer, "out_of_memory") && has(answer, "ulimit -n")) << answer;
  ASSERT_EQ(exporter.ask("files 1024"), "limited");
  ASSERT_EQ(importer.ask(import_line(exported())), "imported 5120");
}

/// A folder that every user may enter, for sockets.
class OpenFolder {
 public:
  OpenFolder() {
    char name[] = "/tmp/vmart-share-XXXXXX";
    path_ = mkdtemp(name);
    EXPECT_EQ(chmod(path_.c_str(), 01777), 0);  // Like /tmp.
  }
  ~OpenFolder() { std::filesystem::remove_all(path_); }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST_F(TwoProcesses, AnotherUserImportsOnlyIfNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can become another user";
  const OpenFolder folder;
  ASSERT_EQ(importer.ask(fmt::format("user {}", nobody)), "became");
  const std::string others = exported(fmt::format(" {} {}", folder.path("others"), nobody - 1));
  EXPECT_TRUE(has(importer.ask(import_line(others)), "not_permitted"));
  EXPECT_EQ(exporter.ask("importers"), "importers");
  EXPECT_EQ(exporter.ask("forget"), "forgotten");
  path_in(exporter.ask(fmt::format("export {} {}", folder.path("named"), nobody)));
  // Root's memory is accepted; that of any other user is not.
  EXPECT_EQ(importer.ask(import_line(folder.path("named"))), "imported 5120");
}

TEST_F(TwoProcesses, StrangersTakeNobodysPlace) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can become another user";
  const OpenFolder folder;
  PeerProcess stranger;
  ASSERT_EQ(stranger.ask(fmt::format("user {}", nobody)), "became");
  const std::string path = exported(fmt::format(" {} {}", folder.path("others"), nobody - 1));
  ASSERT_EQ(stranger.ask(fmt::format("crowd {} 200", path)), "crowded");
  EXPECT_EQ(importer.ask(import_line(path)), "imported 5120");
}

/// Connects again and again as another user, and keeps some of the connections.
class Flood {
 public:
  explicit Flood(const std::string& path) : process_(fork()) {
    if (process_ != 0) return;
    if (setgid(nobody) != 0 || setuid(nobody) != 0) _exit(3);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    for (std::vector<Descriptor> kept;;) {
      Descriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
      if (!made || kept.size() == 500) kept.clear();
      const auto* const there = reinterpret_cast<const sockaddr*>(&address);
      if (connect(made.get(), there, sizeof address) == 0) kept.push_back(std::move(made));
    }
  }
  ~Flood() {
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

 private:
  const pid_t process_;
};

TEST_F(TwoProcesses, ImportsGoOnThoughStrangersConnectWithoutEnd) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can become another user";
  const OpenFolder folder;
  const std::string path = exported(fmt::format(" {} {}", folder.path("others"), nobody - 1));
  const Flood flood(path);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(importer.ask(import_line(path)), "imported 5120") << i;
    ASSERT_EQ(importer.ask("free"), "freed") << i;
  }
}

TEST_F(TwoProcesses, MemoryOfAnotherUserIsAcceptedOnlyIfNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can become another user";
  const OpenFolder folder;
  ASSERT_EQ(exporter.ask(fmt::format("user {}", nobody)), "became");
  const std::string path = exported(fmt::format(" {} 0", folder.path("theirs")));
  const std::string refused = importer.ask(import_line(path));
  EXPECT_TRUE(has(refused, "not_permitted") && has(refused, std::to_string(nobody))) << refused;
  EXPECT_TRUE(becomes("importers", "importers"));
}

}  // namespace
}  // namespace vma
