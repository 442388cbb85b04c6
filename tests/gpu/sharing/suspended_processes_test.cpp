// Goal: processes that share memory suspend themselves when it moves, so that it moves under
// kernels that never end in each of them and no word is wrong; a process that is killed or stands
// at any moment of that costs the others nothing, and programs that share only the GPU go on.
// Method: processes of `share_peer` with VMART_STOP=suspend, on a small simulated machine and on
// real GPUs; with one GPU, memory moves between it and the host. VMART_TEST_SUSPENDED_MOVES sets
// the number of moves beside kernels.

#include "base/clock.hpp"
#include "driver/driver.hpp"
#include "sharing/share_channel.hpp"
#include "support/test_machines.hpp"
#include "support/test_run.hpp"
#include "unit/sharing/peer_process.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t first_word = 1000;

struct SuspendedMachine {
  const char* name;
  const char* driver;
  std::uint64_t chunk_bytes;
  std::uint64_t words;
  int moves;

  friend void PrintTo(const SuspendedMachine& machine, std::ostream* out) { *out << machine.name; }
};

TimePoint soon() {
  const SteadyClock clock;
  return clock.now() + std::chrono::seconds(20);
}

class SuspendedProcesses : public testing::TestWithParam<SuspendedMachine> {
 protected:
  void SetUp() override {
    const char* const chosen = std::getenv("VMART_GPU_TEST");
    if (chosen != nullptr && std::string_view(chosen) != GetParam().name) {
      GTEST_SKIP() << "SKIPPED: VMART_GPU_TEST=" << chosen;
    }
    if (real()) {
      if (const std::string why = CudaMachine::unavailable(); !why.empty()) {
        GTEST_SKIP() << "SKIPPED: " << why;
      }
    }
    begin(exporter);
    if (IsSkipped()) return;
    ASSERT_EQ(exporter->ask(fmt::format("alloc {}", words())), "allocated");
    ASSERT_EQ(exporter->ask(fmt::format("fill {}", first_word)), "filled");
    const std::string answer = exporter->ask("export");
    ASSERT_EQ(answer.find("exported /"), 0u) << answer;
    path = answer.substr(answer.find(' ') + 1);
    imports(importer);
  }

  static bool real() { return std::string_view(GetParam().name) == CudaMachine::name; }
  static std::uint64_t words() { return GetParam().words; }
  static std::uint64_t moves() {
    return number_from_environment("VMART_TEST_SUSPENDED_MOVES", GetParam().moves);
  }
  /// Moves would hold, and wait for kernels that never end, before it is known to work.
  static void begin(std::optional<PeerProcess>& peer) {
    peer.emplace(std::vector<std::string>{GetParam().driver, std::to_string(GetParam().chunk_bytes),
                                          "suspend"});
    const std::string found = peer->ask("check");
    if (found == "usable") return;
    if (real()) GTEST_SKIP() << "SKIPPED: " << found;
    FAIL() << found;
  }
  void imports(std::optional<PeerProcess>& peer) const {
    begin(peer);
    if (IsSkipped()) return;
    ASSERT_EQ(peer->ask(fmt::format("import {} 20000", path)), fmt::format("imported {}", words()));
  }
  static void counts(PeerProcess& peer, std::uint64_t first, std::uint64_t count) {
    ASSERT_EQ(peer.ask(fmt::format("count {} {}", first, count)), "counting");
    ASSERT_EQ(peer.ask("goes_on"), "goes on");
  }
  static std::uint64_t number_in(const std::string& answer, const std::string& verb) {
    EXPECT_EQ(answer.find(verb + " "), 0u) << answer;
    return answer.find(verb + " ") == 0 ? std::stoull(answer.substr(verb.size() + 1)) : 0;
  }
  static std::uint64_t counted(PeerProcess& peer) {
    return number_in(peer.ask("counted"), "counted");
  }
  void carries(std::uint64_t count, int deadline_ms, const char* how) {
    exporter->tell(fmt::format("carry {} {} {}", count, deadline_ms, how));
  }
  std::uint64_t carried() { return number_in(exporter->answer(), "carried"); }
  static void expect_added(PeerProcess& peer, std::uint64_t added) {
    EXPECT_EQ(peer.ask(fmt::format("wrong {}", first_word + added)), "wrong 0");
  }
  /// So that what follows comes at another moment of a move each time.
  static void let_pass(PeerProcess& peer, int questions) {
    for (int i = 0; i < questions; ++i) EXPECT_EQ(peer.ask("goes_on"), "goes on");
  }

  /// An importer that takes part in one move by hand, and never says that it has stopped: so the
  /// exporter waits for it, and all other importers stand.
  class Silent {
   public:
    explicit Silent(const std::string& exported)
        : channel_(ShareChannel::connect(exported, soon())) {
      say(ShareKind::hello);
      EXPECT_EQ(hear(), ShareKind::offer);
      say(ShareKind::ready);
      EXPECT_EQ(hear(), ShareKind::done);
    }
    /// Returns once the exporter has asked all importers to stop.
    void follow_until_it_stops() {
      EXPECT_EQ(hear(), ShareKind::move);
      say(ShareKind::ready);
      EXPECT_EQ(hear(), ShareKind::stop);
    }

   private:
    void say(ShareKind kind) {
      ShareMessage message;
      message.kind = kind;
      channel_.send(message, soon());
    }
    ShareKind hear() { return channel_.receive(soon(), ShareChannel::Takes::descriptors).kind; }

    ShareChannel channel_;
  };

  std::optional<PeerProcess> exporter, importer;
  std::string path;
};

TEST_P(SuspendedProcesses, MemoryMovesUnderAKernelOfAnImporterThatNeverEnds) {
  for (const char* const how : {"background", "held"}) {
    SCOPED_TRACE(how);
    ASSERT_EQ(exporter->ask(fmt::format("fill {}", first_word)), "filled");
    counts(*importer, 0, words());
    carries(moves(), 20'000, how);
    EXPECT_EQ(carried(), moves());
    EXPECT_EQ(importer->ask("goes_on"), "goes on");
    const std::uint64_t beats = counted(*importer);
    expect_added(*importer, beats);
    expect_added(*exporter, beats);
    fmt::print("{} moves of {} KiB, {}, beside a kernel that counted to {}: {}\n", moves(),
               words() * 8 >> 10, how, beats, exporter->ask("figures"));
  }
}

/// Attached streams would allow a gate, which would not stop the kernels.
TEST_P(SuspendedProcesses, KernelsThatNeverEndRunInBothBesideAttachedStreams) {
  const std::uint64_t half = words() / 2;
  ASSERT_EQ(exporter->ask("attach"), "attached");
  ASSERT_EQ(importer->ask("attach"), "attached");
  counts(*exporter, 0, half);
  counts(*importer, half, half);
  carries(moves(), 20'000, "background");
  EXPECT_EQ(carried(), moves());
  const std::uint64_t first = counted(*exporter), second = counted(*importer);
  const std::uint64_t most = std::max(first, second);
  // The other half catches up.
  ASSERT_EQ(exporter->ask(fmt::format("plus 0 {} {}", half, most - first)), "added");
  ASSERT_EQ(exporter->ask(fmt::format("plus {} {} {}", half, half, most - second)), "added");
  expect_added(*exporter, most);
  expect_added(*importer, most);
}

TEST_P(SuspendedProcesses, AnImporterThatIsKilledCostsNothing) {
  constexpr int rounds = 6;
  const std::uint64_t half = words() / 2;
  counts(*importer, 0, half);
  for (int round = 0; round < rounds; ++round) {
    std::optional<PeerProcess> victim;
    imports(victim);
    counts(*victim, half, half);
    carries(20, 20'000, "background");
    let_pass(*importer, round);
    victim->kill();
    carried();
  }
  carries(1, 20'000, "background");
  EXPECT_EQ(carried(), 1u);
  EXPECT_EQ(importer->ask("goes_on"), "goes on");
  counted(*importer);
  EXPECT_EQ(importer->ask(fmt::format("words {}", half)), "words right");
  EXPECT_EQ(exporter->ask(fmt::format("words {}", half)), "words right");
}

/// It stands, and would for ever if nothing let it go on; other programs of the GPU do not stand.
TEST_P(SuspendedProcesses, AnImporterGoesOnIfItsExporterIsKilledBeforeTheDecision) {
  std::optional<PeerProcess> bystander;
  begin(bystander);
  ASSERT_EQ(bystander->ask("alloc 512"), "allocated");
  counts(*bystander, 0, 512);
  Silent silent(path);
  counts(*importer, 0, words());
  carries(1, 20'000, "background");
  silent.follow_until_it_stops();
  EXPECT_EQ(importer->ask("stands"), "stands");
  EXPECT_EQ(bystander->ask("goes_on"), "goes on");
  exporter->kill();
  EXPECT_EQ(importer->ask("goes_on"), "goes on");
  expect_added(*importer, counted(*importer));
}

/// No later than the limits of the move say.
TEST_P(SuspendedProcesses, AnImporterGoesOnIfItsExporterStandsBeforeTheDecision) {
  Silent silent(path);
  counts(*importer, 0, words());
  carries(1, 500, "background");
  silent.follow_until_it_stops();
  exporter->stop();
  EXPECT_EQ(importer->ask("goes_on"), "goes on");
  exporter->go_on();
  EXPECT_EQ(carried(), 0u);
  const std::uint64_t beats = counted(*importer);
  expect_added(*importer, beats);
  expect_added(*exporter, beats);
}

TEST_P(SuspendedProcesses, OtherProgramsOfTheGpuGoOn) {
  std::optional<PeerProcess> bystander;
  begin(bystander);
  ASSERT_EQ(bystander->ask("alloc 512"), "allocated");
  counts(*bystander, 0, 512);
  counts(*importer, 0, words());
  const std::string before = bystander->ask("gap 500");
  carries(moves(), 20'000, "background");
  const std::string beside = bystander->ask("gap 500");
  EXPECT_EQ(carried(), moves());
  EXPECT_EQ(bystander->ask("goes_on"), "goes on");
  fmt::print(
      "a program that shares only the GPU with two others: its kernel stands for at most {} "
      "us, and {} us while memory of the others moves\n",
      number_in(before, "gap"), number_in(beside, "gap"));
  counted(*bystander);
  expect_added(*importer, counted(*importer));
}

INSTANTIATE_TEST_SUITE_P(On, SuspendedProcesses,
                         testing::Values(SuspendedMachine{"sim", "sim:test-2", 8192, 5120, 20},
                                         SuspendedMachine{"cuda", "cuda", std::uint64_t{2} << 20,
                                                          std::uint64_t{1} << 20, 200}),
                         [](const auto& machine) { return std::string(machine.param.name); });

}  // namespace
}  // namespace vma
