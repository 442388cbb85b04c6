// Goal: exported memory moves while another process uses it, and neither loses a word; an importer
// or exporter that is killed, stopped, comes or goes at any moment costs the other neither bytes
// nor more time than the limits. Method: processes of `share_peer`, on a small simulated machine
// and on real GPUs. Kernels of one or both add to words all the time; in the end every word has to
// have every addition. VMART_TEST_MOVES sets the number of moves beside kernels.

#include "driver/driver.hpp"
#include "support/test_machines.hpp"
#include "unit/sharing/peer_process.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t seed = 1000;

struct Machine {
  const char* name;
  const char* driver;
  std::uint64_t chunk_bytes;
  std::uint64_t words;
  int moves;

  /// Otherwise the test's name would have the bytes of its pointers.
  friend void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.name; }
};

/// Why the machine is left out; empty if it is not.
std::string why_left_out(const Machine& machine) {
  const char* chosen = std::getenv("VMART_GPU_TEST");
  if (chosen != nullptr && std::string_view(chosen) != machine.name) {
    return std::string("VMART_GPU_TEST=") + chosen;
  }
  if (std::string_view(machine.name) != CudaMachine::name) return "";
  if (std::string why = CudaMachine::unavailable(); !why.empty()) return why;
  const int gpus = CudaMachine::open()->device_count();
  return gpus < 2 ? fmt::format("needs 2 GPUs, has {}", gpus) : "";
}

/// The processes start with their first use, so that none does if the machine is left out.
class MovingProcesses : public testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    if (const std::string why = why_left_out(GetParam()); !why.empty()) {
      GTEST_SKIP() << "SKIPPED: " << why;
    }
    exports(exporter.emplace(arguments()));
    importer.emplace(arguments());
  }

  static std::vector<std::string> arguments() {
    return {GetParam().driver, std::to_string(GetParam().chunk_bytes)};
  }
  static std::uint64_t words() { return GetParam().words; }
  static int moves() {
    const char* chosen = std::getenv("VMART_TEST_MOVES");
    return chosen != nullptr ? std::stoi(chosen) : GetParam().moves;
  }
  void exports(PeerProcess& peer) {
    ASSERT_EQ(peer.ask(fmt::format("alloc {}", words())), "allocated");
    ASSERT_EQ(peer.ask(fmt::format("fill {}", seed)), "filled");
    const std::string answer = peer.ask("export");
    ASSERT_EQ(answer.find("exported /"), 0u) << answer;
    path = answer.substr(answer.find(' ') + 1);
  }
  void imports(PeerProcess& peer) const {
    ASSERT_EQ(peer.ask(import_line()), fmt::format("imported {}", words()));
  }
  std::string import_line() const { return fmt::format("import {} 20000", path); }
  /// Adds to these words from now on; to all if none are named.
  static void runs(PeerProcess& peer, std::uint64_t begin = 0, std::uint64_t count = 0) {
    ASSERT_EQ(peer.ask("attach"), "attached");
    ASSERT_EQ(peer.ask(fmt::format("run {} {}", begin, count == 0 ? words() : count)), "running");
  }
  /// The memory moves to and fro until the answer is asked for.
  void carries(int count, int deadline_ms = 20'000) {
    exporter->tell(fmt::format("carry {} {}", count, deadline_ms));
  }
  std::uint64_t carried() { return number_in(exporter->answer(), "carried"); }
  static std::uint64_t number_in(const std::string& answer, const std::string& verb) {
    EXPECT_EQ(answer.find(verb + " "), 0u) << answer;
    return answer.find(verb + " ") == 0 ? std::stoull(answer.substr(verb.size() + 1)) : 0;
  }
  static std::uint64_t halted(PeerProcess& peer) { return number_in(peer.ask("halt"), "ran"); }
  static std::uint64_t wrong(PeerProcess& peer, std::uint64_t added) {
    return number_in(peer.ask(fmt::format("wrong {}", seed + added)), "wrong");
  }
  /// So that what follows comes at another moment of a move each time.
  static void let_pass(PeerProcess& peer, int questions) {
    for (int i = 0; i < questions; ++i) EXPECT_TRUE(has(peer.ask("where"), "gpu"));
  }
  static bool has(const std::string& answer, const std::string& words) {
    return answer.find(words) != std::string::npos;
  }

  std::optional<PeerProcess> exporter, importer;
  std::string path;
};

TEST_P(MovingProcesses, TheKernelsOfAnImporterLoseNothing) {
  imports(*importer);
  runs(*importer);
  carries(moves());
  EXPECT_EQ(carried(), static_cast<std::uint64_t>(moves()));
  const std::uint64_t added = halted(*importer);
  EXPECT_EQ(wrong(*importer, added), 0u);
  EXPECT_EQ(wrong(*exporter, added), 0u);
  std::printf("%d moves of %llu MiB beside %llu kernels: %s\n", moves(),
              static_cast<unsigned long long>(words() * 8 >> 20),
              static_cast<unsigned long long>(added), exporter->ask("figures").c_str());
  EXPECT_EQ(exporter->ask("where"), importer->ask("where"));
  EXPECT_EQ(exporter->ask("move 1"), "moved");
  EXPECT_EQ(importer->ask("where"), "gpu(1)") << "it tells where the memory is";
}

TEST_P(MovingProcesses, BothMayRunBesideTheMoves) {
  const std::uint64_t half = words() / 2;
  imports(*importer);
  runs(*exporter, 0, half);
  runs(*importer, half, half);
  carries(moves());
  EXPECT_EQ(carried(), static_cast<std::uint64_t>(moves()));
  const std::uint64_t first = halted(*exporter), second = halted(*importer);
  const std::uint64_t most = std::max(first, second);
  ASSERT_EQ(exporter->ask(fmt::format("add 0 {} {}", half, most - first)), "added");
  ASSERT_EQ(importer->ask(fmt::format("add {} {} {}", half, half, most - second)), "added");
  EXPECT_EQ(wrong(*exporter, most), 0u);
  EXPECT_EQ(wrong(*importer, most), 0u);
}

TEST_P(MovingProcesses, SeveralImportersFollowTogether) {
  imports(*importer);
  PeerProcess second(arguments()), third(arguments());
  imports(second);
  imports(third);
  runs(*importer);
  carries(20);
  EXPECT_EQ(carried(), 20u);
  const std::uint64_t added = halted(*importer);
  EXPECT_EQ(wrong(*exporter, added), 0u);
  EXPECT_EQ(wrong(second, added), 0u);
  EXPECT_EQ(wrong(third, added), 0u);
}

TEST_P(MovingProcesses, ImportersComeAndGoBesideMoves) {
  imports(*importer);
  runs(*importer);
  constexpr int rounds = 8;
  for (int round = 0; round < rounds; ++round) {
    PeerProcess guest(arguments());
    carries(4);
    imports(guest);
    EXPECT_EQ(guest.ask("free"), "freed");
    EXPECT_EQ(carried(), 4u);
  }
  const std::uint64_t added = halted(*importer);
  EXPECT_EQ(wrong(*exporter, added), 0u);
  EXPECT_EQ(wrong(*importer, added), 0u);
}

TEST_P(MovingProcesses, AKilledImporterCostsNothing) {
  constexpr int rounds = 10;
  const std::uint64_t quiet = words() / 2;  // Nobody writes to these.
  for (int round = 0; round < rounds; ++round) {
    PeerProcess victim(arguments());
    imports(victim);
    runs(victim, quiet, words() - quiet);
    carries(20);
    let_pass(victim, round);
    victim.kill();
    carried();
  }
  EXPECT_EQ(exporter->ask(fmt::format("words {}", quiet)), "words right");
  EXPECT_EQ(exporter->ask("move 1"), "moved");
  EXPECT_EQ(exporter->ask(fmt::format("fill {}", seed)), "filled");
  EXPECT_EQ(wrong(*exporter, 0), 0u);
  EXPECT_EQ(exporter->ask("forget"), "forgotten");
  EXPECT_EQ(exporter->ask("free"), "freed");
  EXPECT_EQ(exporter->end(), 0);
}

TEST_P(MovingProcesses, AStoppedImporterKeepsTheMemoryInPlaceAndFollowsLater) {
  imports(*importer);
  runs(*importer);
  importer->stop();
  const std::string refused = exporter->ask("move 1 200");
  EXPECT_TRUE(has(refused, "busy") && has(refused, fmt::format("process {}", importer->id())))
      << refused;
  EXPECT_EQ(exporter->ask("where"), "gpu(0)");
  EXPECT_TRUE(has(exporter->ask("move 1 200"), "busy")) << "it has not answered the first one";
  importer->go_on();
  EXPECT_EQ(exporter->ask("move 1"), "moved");
  const std::uint64_t added = halted(*importer);
  EXPECT_EQ(wrong(*importer, added), 0u);
  EXPECT_EQ(wrong(*exporter, added), 0u);
}

TEST_P(MovingProcesses, AnImporterThatIsStoppedNowAndThenLosesNothing) {
  imports(*importer);
  runs(*importer);
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    carries(10, 20);
    let_pass(*importer, round);
    importer->stop();
    carried();
    importer->go_on();
  }
  EXPECT_EQ(exporter->ask("move 1"), "moved");
  const std::uint64_t added = halted(*importer);
  EXPECT_EQ(wrong(*importer, added), 0u);
  EXPECT_EQ(wrong(*exporter, added), 0u);
}

TEST_P(MovingProcesses, AKilledExporterCostsItsImportersNothing) {
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    PeerProcess user(arguments());
    exports(exporter.emplace(arguments()));
    imports(user);
    runs(user);
    carries(1'000'000);
    let_pass(user, round);
    exporter->kill();
    const std::uint64_t added = halted(user);
    EXPECT_EQ(wrong(user, added), 0u);
    EXPECT_EQ(user.ask("free"), "freed");
    EXPECT_EQ(user.end(), 0);
  }
}

/// The importer does not wait for it longer than the limits of the move.
TEST_P(MovingProcesses, AStoppedExporterCostsItsImportersNothing) {
  imports(*importer);
  runs(*importer);
  constexpr int rounds = 6;
  for (int round = 0; round < rounds; ++round) {
    carries(20, 50);
    let_pass(*importer, round);
    exporter->stop();
    const std::uint64_t added = halted(*importer);
    EXPECT_EQ(wrong(*importer, added), 0u) << "all that was launched has run";
    exporter->go_on();
    carried();
    ASSERT_EQ(importer->ask(fmt::format("run 0 {}", words())), "running");
  }
  const std::uint64_t added = halted(*importer);
  EXPECT_EQ(wrong(*importer, added), 0u);
  EXPECT_EQ(wrong(*exporter, added), 0u);
}

TEST_P(MovingProcesses, AnImporterThatEndsInTheMiddleOfMovesEnds) {
  constexpr int rounds = 5;
  for (int round = 0; round < rounds; ++round) {
    PeerProcess guest(arguments());
    imports(guest);
    carries(20);
    let_pass(guest, round);
    EXPECT_EQ(guest.end(), 0);
    carried();
  }
  EXPECT_EQ(exporter->ask("move 1"), "moved");
  EXPECT_EQ(wrong(*exporter, 0), 0u);
}

INSTANTIATE_TEST_SUITE_P(On, MovingProcesses,
                         testing::Values(Machine{"sim", "sim:test-2", 8192, 5120, 100},
                                         Machine{"cuda", "cuda", std::uint64_t{8} << 20,
                                                 std::uint64_t{8} << 20, 500}),
                         [](const auto& machine) { return std::string(machine.param.name); });

}  // namespace
}  // namespace vma
