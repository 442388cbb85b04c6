// Goal: an export serves whoever asks properly, and refuses everything else in time and with a
// reason; an import takes nothing from an exporter that does not follow the protocol. Method: peers
// that send what they like, to and from a runtime.

#include "sharing/shared_decision.hpp"
#include "unit/sharing/sharing_rig.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <functional>
#include <thread>

namespace vma {
namespace {

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
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  hello.descriptors.emplace_back(ends[1]);
  channel.send(hello, soon());
  EXPECT_EQ(refused(channel), ErrorKind::peer_failure);
  hello.descriptors.clear();  // The last one here; the exporter's must be closed, too.
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(SharingTest, AStalledPeerIsDisconnectedInTime) {
  const ExportedAllocation exported = share({.import_limit = std::chrono::milliseconds(50)});
  ShareChannel silent = peer(exported);
  ShareChannel half = peer(exported);
  try {
    half.send(message_of(ShareKind::hello), soon());
  } catch (const Error&) {  // It is late already.
  }
  EXPECT_EQ(refused(silent), ErrorKind::busy);
  // The offer may have come in time.
  ShareMessage answer = half.receive(soon());
  if (answer.kind == ShareKind::offer) answer = half.receive(soon());
  EXPECT_EQ(answer.kind, ShareKind::refusal);
  EXPECT_EQ(answer.error, ErrorKind::busy);
  EXPECT_TRUE(no_importer_left(exported));
  exporter.runtime().migrate(words, gpu(1));
}

TEST_F(SharingTest, AReadyImporterIsToldThatItCounts) {
  const ExportedAllocation exported = share();
  ShareChannel channel = greeted(exported);
  channel.send(message_of(ShareKind::ready), soon());
  EXPECT_EQ(channel.receive(soon()).kind, ShareKind::done);
  EXPECT_EQ(exported.importers().size(), 1u);
}

TEST_F(SharingTest, SilentPeersTakeNobodysPlace) {
  const ExportedAllocation exported = share({.importers_max = 1});
  std::vector<ShareChannel> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(peer(exported));
  EXPECT_NE(import(exported), nullptr);
}

TEST_F(SharingTest, AllWhoMayImportMayConnectAndAskLater) {
  const ExportedAllocation exported =
      share({.importers_max = 3, .import_limit = std::chrono::minutes(10)});
  std::vector<ShareChannel> silent;
  for (int i = 0; i < 64 + 3; ++i) silent.push_back(peer(exported));
  ShareChannel further = peer(exported);
  EXPECT_EQ(refused(further), ErrorKind::busy);
  silent.back().send(message_of(ShareKind::hello), soon());
  EXPECT_EQ(silent.back().receive(soon()).kind, ShareKind::offer);
}

TEST_F(SharingTest, TheLargestLimitsAreTaken) {
  ExportOptions options;
  options.importers_max = SIZE_MAX;
  options.import_limit = std::chrono::milliseconds::max();
  const ExportedAllocation exported = share(options);
  std::uint64_t* theirs = import(exported, {.limit = std::chrono::milliseconds::max()});
  EXPECT_EQ(importer.wrong(theirs, words_shared, 40), 0u);
}

TEST(ShareLimits, GrowWithTheNumberOfChunks) {
  using std::chrono::milliseconds;
  EXPECT_EQ(import_time(milliseconds(5'000), 1), milliseconds(5'000));
  EXPECT_EQ(import_time(milliseconds(5'000), 256), milliseconds(5'000));
  EXPECT_EQ(import_time(milliseconds(5'000), 257), milliseconds(10'000));
  EXPECT_EQ(import_time(milliseconds(5'000), 70'000), milliseconds(274 * 5'000));
  EXPECT_EQ(import_time(milliseconds::max(), 1), std::chrono::hours(24));
  const auto longest = std::chrono::nanoseconds(import_time(milliseconds::max(), UINT64_MAX));
  EXPECT_GT(longest.count(), 0);
}

/// A forked child has the descriptors of its parent.
TEST_F(SharingTest, AForkedChildCannotSpeakForItsParent) {
  const ExportedAllocation exported = share();
  ShareChannel channel = greeted(exported);
  const std::vector<std::byte> ready = encode(message_of(ShareKind::ready));
  const pid_t child = fork();
  if (child == 0) {
    const ssize_t sent = ::send(channel.native(), ready.data(), ready.size(), MSG_NOSIGNAL);
    _exit(sent == static_cast<ssize_t>(ready.size()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(refused(channel), ErrorKind::peer_failure);
  EXPECT_TRUE(no_importer_left(exported));
}

TEST_F(SharingTest, AShutdownWakesAnImportThatWaits) {
  const FalseExporter silent;
  ThreadedExecutor threads;
  ErrorKind kind{};
  const auto waiting = threads.spawn("import", [&] {
    kind = kind_of_error([&] {
      importer.runtime().import_allocation(silent.path(), {.limit = std::chrono::hours(1)});
    });
  });
  const ShareChannel connected = silent.accept();  // It waits for an answer, now or soon.
  importer.runtime().shutdown();
  waiting->join();
  EXPECT_EQ(kind, ErrorKind::driver_gone);
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

// The exporter hears of a free some time after it, perhaps when the next import has begun.
TEST_F(SharingTest, AnImporterThatImportsAndFreesInALoopIsNeverRefused) {
  const ExportedAllocation exported = share({.importers_max = 1});
  for (int round = 0; round < 100; ++round) {
    std::uint64_t* theirs = nullptr;
    ASSERT_NO_THROW(theirs = import(exported)) << round;
    importer.runtime().free(theirs);
  }
}

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
    message.descriptors.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    return message;
  }
  /// A true chunk, of the exporter's machine.
  ShareMessage true_chunk() {
    Machinery& parts = *parts_of(exporter.runtime()).machinery;
    const Chunk& chunk = parts.memory.require(words, "test")->chunk(0);
    const Descriptor descriptor(parts.memory.driver().export_chunk(chunk.handle()));
    return chunks(0, chunk_bytes, "0000:01:00.0", descriptor.get());
  }
  static ShareMessage refusal(ErrorKind kind) {
    ShareMessage message = message_of(ShareKind::refusal);
    message.error = kind;
    message.text = "the test refuses";
    return message;
  }
  std::size_t imported_chunks() { return importer.machine().leaks().size(); }

  FalseExporter exporter_;
  /// A file that is no chunk.
  Descriptor other_file_{memfd_create("vmart-test", MFD_CLOEXEC)};
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
  EXPECT_EQ(
      import_from(two(offer(chunk_bytes, 2), chunks(1, chunk_bytes, known, other_file_.get()))),
      ErrorKind::peer_failure)
      << "not the first";
  EXPECT_EQ(import_from(two(offer(chunk_bytes, 2), chunks(0, 4096, known, other_file_.get()))),
            ErrorKind::peer_failure)
      << "another size";
  EXPECT_EQ(
      import_from(two(offer(chunk_bytes, 2), chunks(0, chunk_bytes, "GPU-9", other_file_.get()))),
      ErrorKind::unreachable);
  EXPECT_EQ(
      import_from(two(offer(chunk_bytes, 2), chunks(0, chunk_bytes, known, other_file_.get()))),
      ErrorKind::invalid_argument)
      << "a descriptor of something else";
}
/// The exporter's limit may expire while the importer says that it is ready.
TEST_F(FalseExporterTest, AnImportSucceedsOnlyIfTheExporterCountsIt) {
  const auto after_ready = [&](std::vector<ShareMessage> last) {
    std::vector<ShareMessage> answers;
    answers.push_back(offer(chunk_bytes, 1));
    answers.push_back(true_chunk());
    for (ShareMessage& message : last) answers.push_back(std::move(message));
    return import_from(std::move(answers));
  };
  const auto one = [](ShareMessage message) {
    std::vector<ShareMessage> messages;
    messages.push_back(std::move(message));
    return messages;
  };
  const std::size_t before = imported_chunks();
  EXPECT_EQ(after_ready(one(refusal(ErrorKind::busy))), ErrorKind::busy);
  EXPECT_EQ(after_ready({}), ErrorKind::peer_failure) << "it hangs up";
  EXPECT_EQ(after_ready(one(message_of(ShareKind::offer))), ErrorKind::peer_failure);
  EXPECT_EQ(imported_chunks(), before);
}

/// An exporter that exports two chunks as it should, and then announces a move of both to GPU 1.
class FalseMoveTest : public FalseExporterTest {
 protected:
  /// Lets the importer import, and plays the exporter's part in that and in what follows.
  void import_beside(const std::function<void(ShareChannel&)>& moves) {
    std::thread server([&] {
      ShareChannel channel = exporter_.accept();
      expect(channel, ShareKind::hello);
      channel.send(offer(chunk_bytes, 2), soon());
      for (const std::uint64_t slot : {0, 1}) {
        expect(channel, ShareKind::ask);
        channel.send(chunk_of(words, slot, slot, "0000:01:00.0"), soon());
      }
      expect(channel, ShareKind::ready);
      channel.send(message_of(ShareKind::done), soon());
      ShareMessage announcement = message_of(ShareKind::move, 2);
      announcement.limit = announcement.decision_limit = std::chrono::minutes(1);
      announcement.descriptors.push_back(decision.pass_on());
      channel.send(announcement, soon());
      moves(channel);
    });
    theirs = static_cast<std::uint64_t*>(importer.runtime().import_allocation(
        exporter_.path(), {.limit = std::chrono::seconds(20)}));
    server.join();
  }
  static void expect(ShareChannel& channel, ShareKind kind) {
    EXPECT_EQ(channel.receive(soon()).kind, kind);
  }
  void give(ShareChannel& channel, std::uint64_t first, std::uint64_t slot) {
    expect(channel, ShareKind::ask);
    channel.send(chunk_of(targets, slot, first, "0000:02:00.0"), soon());
  }
  void ask_to_stop(ShareChannel& channel) {
    for (const std::uint64_t slot : {0, 1}) give(channel, slot, slot);
    expect(channel, ShareKind::ready);
    channel.send(message_of(ShareKind::stop), soon());
  }
  /// Its exporter has hung up.
  void expect_to_stay() {
    SteadyClock clock;
    EXPECT_TRUE(
        poll_until(clock, soon(), [&] { return decision.value() == SharedDecision::Value::stay; }));
    EXPECT_EQ(importer.place(theirs), gpu(0));
  }
  ShareMessage chunk_of(const std::uint64_t* of, std::uint64_t slot, std::uint64_t first,
                        const std::string& gpu) {
    Machinery& parts = *parts_of(exporter.runtime()).machinery;
    const Chunk& chunk = parts.memory.require(of, "test")->chunk(slot);
    const Descriptor descriptor(parts.memory.driver().export_chunk(chunk.handle()));
    ShareMessage message = chunks(first, chunk_bytes, gpu, descriptor.get());
    message.chunks.front().slot = slot;
    return message;
  }

  SharedDecision decision;
  const std::uint64_t* const targets = exporter.alloc(2 * chunk_bytes, gpu(1));
  std::uint64_t* theirs = nullptr;
};

TEST_F(FalseMoveTest, ItsChunksComeInOrder) {
  import_beside([this](ShareChannel& channel) {
    give(channel, 0, 1);
    give(channel, 1, 0);
    const ShareMessage answer = channel.receive(soon());
    EXPECT_EQ(answer.kind, ShareKind::refusal);
    EXPECT_EQ(answer.error, ErrorKind::peer_failure);
    expect(channel, ShareKind::ended);
  });
  EXPECT_EQ(importer.place(theirs), gpu(0));
}

TEST_F(FalseMoveTest, OneThatIsCalledOffEndsAtOnce) {
  import_beside([this](ShareChannel& channel) {
    for (const std::uint64_t slot : {0, 1}) give(channel, slot, slot);
    expect(channel, ShareKind::ready);
    decision.decide(SharedDecision::Value::stay);
    expect(channel, ShareKind::ended);
  });
  EXPECT_EQ(importer.place(theirs), gpu(0));
}

TEST_F(FalseMoveTest, WithoutADecisionTheMemoryStays) {
  import_beside([this](ShareChannel& channel) {
    ask_to_stop(channel);
    expect(channel, ShareKind::stopped);
  });
  expect_to_stay();
}

TEST_F(FalseMoveTest, WhereNobodyHearsThatWorkHasStoppedTheMemoryStays) {
  import_beside([this](ShareChannel& channel) { ask_to_stop(channel); });
  expect_to_stay();
}

TEST_F(FalseExporterTest, DescriptorsThatNobodyAskedForDoNotArrive) {
  ShareMessage message = offer(chunk_bytes, 1);
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reads(ends[0]);
  message.descriptors.emplace_back(ends[1]);
  std::vector<ShareMessage> answers;
  answers.push_back(std::move(message));
  EXPECT_EQ(import_from(std::move(answers)), ErrorKind::peer_failure);
  char byte = 0;
  EXPECT_EQ(read(reads.get(), &byte, 1), 0) << "all are closed";
}

/// One that may not import is told so before it has said anything.
TEST_F(FalseExporterTest, ARefusalBeforeAnyQuestionArrives) {
  ThreadedExecutor threads;
  const auto server = threads.spawn(
      "refusing", [&] { exporter_.accept().refuse(ErrorKind::not_permitted, "the test refuses"); });
  EXPECT_EQ(kind_of_error([&] { importer.runtime().import_allocation(exporter_.path()); }),
            ErrorKind::not_permitted);
  server->join();
}

TEST_F(FalseExporterTest, OneThatHasEndedIsNotWaitedFor) {
  exporter_.end();
  EXPECT_EQ(kind_of_error([&] {
              importer.runtime().import_allocation(exporter_.path(),
                                                   {.limit = std::chrono::seconds(20)});
            }),
            ErrorKind::peer_failure);
}

/// While it exists, this process can open no descriptor.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const Descriptor first_free(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(first_free.get());
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
  NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;

 private:
  rlimit before_{};
};

TEST(ShareChannelTest, APeerThatHasEndedIsNoticedWithoutBeingWatched) {
  const FalseExporter exporter;
  exporter.end();
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  exporter.path().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ShareChannel channel;
  {
    const NoDescriptorsLeft none;
    channel = ShareChannel(std::move(socket));
  }
  EXPECT_LT(channel.peer().watch(), 0);
  EXPECT_TRUE(channel.peer().ended());
  EXPECT_EQ(kind_of_error([&] { channel.receive(soon()); }), ErrorKind::peer_failure);
}

}  // namespace
}  // namespace vma
