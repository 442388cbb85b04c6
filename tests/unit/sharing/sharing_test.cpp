// Goal: an export serves whoever asks properly, refuses everything else in time and with a reason,
// and leaves nothing behind; an import is memory like any other, except that it stays. Method: two
// runtimes of one process on machines of their own, and peers that send what they like.

#include "runtime/runtime_parts.hpp"
#include "sharing/share_channel.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

namespace vma {
namespace {

constexpr std::uint64_t words_shared = 3 * chunk_bytes / 8;

TimePoint soon() {
  const SteadyClock clock;
  return clock.now() + std::chrono::seconds(20);
}

ShareMessage message_of(ShareKind kind, std::uint64_t first = 0) {
  ShareMessage message;
  message.kind = kind;
  message.first = first;
  return message;
}

RuntimeOptions exportable() {
  RuntimeOptions options;
  options.exportable = Exportable{.descriptor = true};
  return options;
}

class SharingTest : public testing::Test {
 protected:
  SharingTest() : exporter("test-2", exportable()), words(exporter.alloc(3 * chunk_bytes, gpu(0))) {
    exporter.write(words, words_shared, 40);
  }

  ExportedAllocation share(const ExportOptions& options = {}) {
    return exporter.runtime().export_allocation(words, options);
  }
  std::uint64_t* import(const ExportedAllocation& exported, const ImportOptions& options = {}) {
    return static_cast<std::uint64_t*>(
        importer.runtime().import_allocation(exported.path(), options));
  }
  static ShareChannel peer(const ExportedAllocation& exported) {
    return ShareChannel::connect(exported.path(), soon());
  }
  static void say(const ShareChannel& channel, std::string_view bytes) {
    ASSERT_EQ(::send(channel.native(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// What the exporter refuses with.
  static ErrorKind refused(ShareChannel& channel) {
    const ShareMessage answer = channel.receive(soon());
    EXPECT_EQ(answer.kind, ShareKind::refusal);
    EXPECT_FALSE(answer.text.empty());
    EXPECT_EQ(kind_of_error([&] { channel.receive(soon()); }), ErrorKind::peer_failure)
        << "the connection ends";
    return answer.error;
  }
  /// A peer that has asked properly so far.
  static ShareChannel greeted(const ExportedAllocation& exported) {
    ShareChannel channel = peer(exported);
    channel.send(message_of(ShareKind::hello), soon());
    EXPECT_EQ(channel.receive(soon()).kind, ShareKind::offer);
    return channel;
  }
  static bool no_importer_left(const ExportedAllocation& exported) {
    SteadyClock clock;
    return poll_until(clock, soon(), [&] { return exported.importers().empty(); });
  }

  RuntimeRig exporter, importer;
  std::uint64_t* words;
};

TEST_F(SharingTest, ImportedMemoryIsUsedLikeAnyOther) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported, {.tag = "theirs"});
  EXPECT_EQ(importer.home(theirs), gpu(0));
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
  EXPECT_EQ(importer.home(theirs), host(0));
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

TEST_F(SharingTest, AMoveAnswersWithTheImporter) {
  const ExportedAllocation exported = share();
  exporter.runtime().migrate(words, gpu(1));
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(importer.home(theirs), gpu(1)) << "an export alone keeps nothing in place";
  const std::string text = error_text([&] { exporter.runtime().migrate(words, gpu(0)); });
  EXPECT_NE(text.find("pinned"), std::string::npos) << text;
  EXPECT_NE(text.find("process " + std::to_string(getpid())), std::string::npos) << text;
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
  RuntimeOptions options;
  options.exportable = Exportable{.descriptor = false};
  RuntimeRig closed("test-2", options);
  std::uint64_t* kept = closed.alloc(chunk_bytes, gpu(0));
  const std::string text = error_text([&] { closed.runtime().export_allocation(kept); });
  EXPECT_NE(text.find("unsupported"), std::string::npos) << text;
  EXPECT_NE(text.find("VMART_EXPORTABLE"), std::string::npos) << text;
  closed.runtime().free(kept);
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

// --- Peers that break the protocol

TEST_F(SharingTest, AnotherVersionIsToldSo) {
  const ExportedAllocation exported = share();
  ShareChannel channel = peer(exported);
  std::vector<std::byte> hello = encode(message_of(ShareKind::hello));
  hello[4] = std::byte{share_version + 1};
  say(channel, {reinterpret_cast<const char*>(hello.data()), hello.size()});
  EXPECT_EQ(refused(channel), ErrorKind::unsupported);
}

TEST_F(SharingTest, WhatIsNoMessageEndsTheConnection) {
  const ExportedAllocation exported = share();
  const std::string too_long(2 * share_message_bytes_max, 'x');
  for (const std::string_view bytes : {std::string_view("GET / HTTP/1.1\r\n"),
                                       std::string_view("x"), std::string_view(too_long)}) {
    ShareChannel channel = peer(exported);
    say(channel, bytes);
    EXPECT_EQ(refused(channel), ErrorKind::peer_failure);
  }
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(importer.wrong(theirs, words_shared, 40), 0u) << "the others are served as before";
}

TEST_F(SharingTest, MessagesOutOfTurnEndTheConnection) {
  const ExportedAllocation exported = share();
  for (const ShareKind kind : {ShareKind::ask, ShareKind::ready}) {
    ShareChannel channel = peer(exported);
    channel.send(message_of(kind), soon());
    EXPECT_EQ(refused(channel), ErrorKind::peer_failure);
  }
  ShareChannel twice = greeted(exported);
  twice.send(message_of(ShareKind::hello), soon());
  EXPECT_EQ(refused(twice), ErrorKind::peer_failure);
  ShareChannel beyond = greeted(exported);
  beyond.send(message_of(ShareKind::ask, 3), soon());
  EXPECT_EQ(refused(beyond), ErrorKind::peer_failure);
  EXPECT_TRUE(no_importer_left(exported));
}

TEST_F(SharingTest, DescriptorsOfAPeerAreClosed) {
  const ExportedAllocation exported = share();
  ShareChannel channel = peer(exported);
  ShareMessage hello = message_of(ShareKind::hello);
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  hello.descriptors.emplace_back(ends[1]);
  channel.send(hello, soon());
  EXPECT_EQ(refused(channel), ErrorKind::peer_failure);
  hello.descriptors.clear();  // The last one here; the exporter's must be closed, too.
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(SharingTest, APeerThatStandsIsDisconnectedInTime) {
  const ExportedAllocation exported = share({.import_limit = std::chrono::milliseconds(50)});
  ShareChannel silent = peer(exported);
  ShareChannel half = greeted(exported);
  EXPECT_EQ(refused(silent), ErrorKind::busy);
  EXPECT_EQ(refused(half), ErrorKind::busy);
  EXPECT_TRUE(no_importer_left(exported));
  exporter.runtime().migrate(words, gpu(1));
}

TEST_F(SharingTest, APeerThatReadsNothingIsDisconnected) {
  const ExportedAllocation exported = share();
  ShareChannel channel = greeted(exported);
  const auto flood = [&] {
    while (true) channel.send(message_of(ShareKind::ask), soon());
  };
  EXPECT_EQ(kind_of_error(flood), ErrorKind::peer_failure);
  EXPECT_TRUE(no_importer_left(exported));
}

TEST_F(SharingTest, NoMoreProcessesImportThanMay) {
  const ExportedAllocation exported = share({.importers_max = 1});
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(kind_of_error([&] { import(exported); }), ErrorKind::busy);
  importer.runtime().free(theirs);
  ASSERT_TRUE(no_importer_left(exported));
  EXPECT_NE(import(exported), nullptr);
}

/// Listens where an exporter would, and says what it likes.
class FalseExporter {
 public:
  FalseExporter()
      : socket_("/tmp/vmart-false-" + std::to_string(getpid()), {.type = SOCK_SEQPACKET}),
        listening_(socket_.release()) {}
  const std::string& path() const { return socket_.path(); }
  ShareChannel accept() const {
    SteadyClock clock;
    int peer = -1;
    poll_until(clock, soon(), [&] {
      return (peer = ::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK)) >= 0;
    });
    return ShareChannel(Descriptor(peer));
  }

 private:
  ControlSocket socket_;
  Descriptor listening_;
};

class FalseExporterTest : public SharingTest {
 protected:
  /// How an import ends whose questions get these answers, in order. Then the exporter hangs up.
  ErrorKind import_from(std::vector<ShareMessage> answers) {
    ThreadedExecutor threads;
    const auto server = threads.spawn("false", [&] {
      ShareChannel channel = exporter_.accept();
      try {
        for (const ShareMessage& answer : answers) {
          channel.receive(soon());
          channel.send(answer, soon());
        }
        channel.receive(soon());
      } catch (const Error&) {  // The importer has hung up.
      }
    });
    const ErrorKind kind = kind_of_error([&] {
      importer.runtime().import_allocation(exporter_.path(), {.limit = std::chrono::seconds(20)});
    });
    server->join();
    importer.check_invariants();
    return kind;
  }
  static ShareMessage offer(std::uint64_t bytes, std::size_t slots) {
    ShareMessage message = message_of(ShareKind::offer);
    message.geometry = {bytes, bytes, slots};
    return message;
  }
  ShareMessage chunks(std::uint64_t first, std::uint64_t size_bytes, const std::string& gpu,
                      int descriptor) {
    ShareMessage message = message_of(ShareKind::chunks, first);
    message.chunks.push_back({{gpu, 0}, size_bytes});
    message.descriptors.emplace_back(dup(descriptor));
    return message;
  }

  FalseExporter exporter_;
};

TEST_F(FalseExporterTest, EveryWrongAnswerIsATypedErrorAndLeavesNothing) {
  const auto one = [](ShareMessage message) {
    std::vector<ShareMessage> answers;
    answers.push_back(std::move(message));
    return answers;
  };
  const auto two = [&](ShareMessage first, ShareMessage second) {
    std::vector<ShareMessage> answers = one(std::move(first));
    answers.push_back(std::move(second));
    return answers;
  };
  const std::string known = "0000:01:00.0";
  EXPECT_EQ(import_from({}), ErrorKind::peer_failure) << "it hangs up";
  EXPECT_EQ(import_from(one(message_of(ShareKind::ready))), ErrorKind::peer_failure);
  EXPECT_EQ(import_from(one(offer(5, 1))), ErrorKind::unsupported) << "no whole pages";
  EXPECT_EQ(import_from(one(offer(chunk_bytes, 2))), ErrorKind::peer_failure) << "no chunks";
  EXPECT_EQ(import_from(two(offer(chunk_bytes, 2), chunks(1, chunk_bytes, known, 0))),
            ErrorKind::peer_failure)
      << "not the first";
  EXPECT_EQ(import_from(two(offer(chunk_bytes, 2), chunks(0, 4096, known, 0))),
            ErrorKind::peer_failure)
      << "another size";
  EXPECT_EQ(import_from(two(offer(chunk_bytes, 2), chunks(0, chunk_bytes, "GPU-9", 0))),
            ErrorKind::unreachable);
  EXPECT_EQ(import_from(two(offer(chunk_bytes, 2), chunks(0, chunk_bytes, known, 0))),
            ErrorKind::invalid_argument)
      << "a descriptor of something else";
}

}  // namespace
}  // namespace vma
