// Goal: synthetic traces have the statistics that their headers promise for every seed, and depend
// on the seed alone.

#include "lab/generate/trace_generators.hpp"
#include "lab/generate/trace_random.hpp"
#include "support/test_run.hpp"
#include "unit/lab/trace/loop_races.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace vma {
namespace {

class Generators : public testing::Test {
 protected:
  std::vector<ToldEvent> generate(const std::string& name, std::vector<std::string> values,
                                  std::uint64_t seed = run_seed()) {
    path_ = folder_ / "out.vtrace";
    audit_ = generate_trace({name, path_, std::move(values), seed});
    return read_all(path_);
  }

  TemporaryFolder folder_;
  std::string path_;
  TraceAudit audit_;
};

/// Checks that `count` is within six standard deviations of `draws` draws with `probability`.
void expect_drawn(double count, double draws, double probability) {
  EXPECT_NEAR(count, draws * probability,
              6 * std::sqrt(draws * probability * (1 - probability)) + 1)
      << "VMART_SEED=" << run_seed();
}

TEST(Zipf, DrawsRanksByTheLaw) {
  for (const double skew : {0.0, 1.0, 2.0}) {
    constexpr int draws = 100'000;
    const Zipf zipf(50, skew);
    double sum = 0;
    for (int rank = 1; rank <= 50; ++rank) sum += std::pow(rank, -skew);
    TraceRandom random(run_seed());
    std::vector<double> counts(50);
    for (int draw = 0; draw < draws; ++draw) ++counts.at(zipf.draw(random));
    for (std::size_t rank = 0; rank < 50; ++rank) {
      SCOPED_TRACE(fmt::format("skew {}, rank {}", skew, rank));
      const double share = std::pow(static_cast<double>(rank + 1), -skew) / sum;
      EXPECT_NEAR(zipf.share(rank), share, 1e-12);
      expect_drawn(counts[rank], draws, share);
    }
  }
}

TEST(TraceRandom, HasTheMeansThatItIsAskedFor) {
  TraceRandom random(run_seed());
  constexpr int draws = 20'000;
  for (const double mean : {0.5, 20.0, 1000.0}) {
    double sum = 0, gaps = 0;
    for (int draw = 0; draw < draws; ++draw) {
      sum += static_cast<double>(random.poisson(mean));
      gaps += static_cast<double>(random.exponential(mean * 1e6).count());
    }
    EXPECT_NEAR(sum / draws, mean, 6 * std::sqrt(mean / draws)) << "VMART_SEED=" << run_seed();
    EXPECT_NEAR(gaps / draws / 1e6, mean, 6 * mean / std::sqrt(draws));
  }
  std::vector<double> lengths;
  for (int draw = 0; draw < draws; ++draw) lengths.push_back(random.log_normal(100, 0.5));
  std::nth_element(lengths.begin(), lengths.begin() + draws / 2, lengths.end());
  EXPECT_NEAR(lengths[draws / 2], 100, 3);
}

TEST_F(Generators, OneSeedGivesTheSameBytesAndAnotherOthers) {
  const std::map<std::string, std::vector<std::string>> small{
      {"moe", {"steps=20"}},          {"phase-change", {"phase_s=0.2", "phases=2"}},
      {"pipeline", {"iterations=2"}}, {"producer-consumer", {"length_s=0.1"}},
      {"rebalance", {"rounds=2"}},    {"serving", {"length_s=2"}},
      {"zipf-drift", {"length_s=1"}}};
  ASSERT_EQ(small.size(), trace_generators().size());
  for (const auto& [name, values] : small) {
    SCOPED_TRACE(name);
    generate(name, values, 5);
    const std::string bytes = text_of(path_);
    generate(name, values, 5);
    EXPECT_EQ(text_of(path_), bytes);
    const std::vector<ToldEvent> events = read_all(path_);
    if (name == "rebalance") {  // Nothing in it is random.
      EXPECT_EQ(generate(name, values, 6), events);
    } else {
      EXPECT_NE(generate(name, values, 6), events);
    }
    EXPECT_EQ(audit_.objects_live(), 0u) << "what was allocated is freed";
    EXPECT_EQ(audit_.unplaced(), 0u);
  }
}

// With all parameters at their minimum there is either a trace or a refusal with a reason.
TEST_F(Generators, NoParameterAtItsLeastBreaksOne) {
  const std::map<std::string, std::vector<std::string>> tiny{
      {"moe", {"steps=2", "layers=2"}},
      {"phase-change", {"phase_s=0.01", "phases=2"}},
      {"pipeline", {"iterations=1"}},
      {"producer-consumer", {"length_s=0.01"}},
      {"rebalance", {"rounds=1", "phases=1", "chunks=1"}},
      {"serving", {"length_s=0.5"}},
      {"zipf-drift", {"length_s=0.01"}}};
  for (const TraceGenerator& generator : trace_generators()) {
    for (const TraceParameter& parameter : generator.parameters) {
      std::vector<std::string> values = tiny.at(std::string(generator.name));
      values.push_back(fmt::format("{}={}", parameter.name, parameter.least));
      SCOPED_TRACE(fmt::format("{} {}", generator.name, values.back()));
      const std::string error = error_of([&] { generate(std::string(generator.name), values); });
      EXPECT_TRUE(error.empty() || error.find("need more than") != std::string::npos) << error;
      if (error.empty()) {
        EXPECT_GT(audit_.events(), 0u);
      }
    }
  }
}

std::map<std::uint64_t, double> counts_between(const std::vector<ToldEvent>& events, Time from,
                                               Time to) {
  std::map<std::uint64_t, double> counts;
  for (const ToldEvent& told : events) {
    if (told.event.kind != TraceEventKind::access) continue;
    if (told.event.time >= from && told.event.time < to) ++counts[told.event.object];
  }
  return counts;
}

std::set<std::uint64_t> hottest(const std::map<std::uint64_t, double>& counts, std::size_t most) {
  std::vector<std::pair<double, std::uint64_t>> sorted;
  for (const auto& [object, count] : counts) sorted.emplace_back(-count, object);
  std::sort(sorted.begin(), sorted.end());
  std::set<std::uint64_t> found;
  for (std::size_t rank = 0; rank < std::min(most, sorted.size()); ++rank) {
    found.insert(sorted[rank].second);
  }
  return found;
}

std::size_t shared(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
  return static_cast<std::size_t>(
      std::count_if(a.begin(), a.end(), [&](std::uint64_t one) { return b.contains(one); }));
}

TEST_F(Generators, DriftMovesTheHotSet) {
  const auto overlap = [this](const std::string& drift) {
    const auto events =
        generate("zipf-drift", {"length_s=20", "drift_s=10", "accesses_s=3000", "skew=1.2", drift});
    const Time middle = std::chrono::seconds(10), end = std::chrono::seconds(20);
    return shared(hottest(counts_between(events, Time(0), middle), 10),
                  hottest(counts_between(events, middle, end), 10));
  };
  EXPECT_GE(overlap("drift=0"), 7u);
  EXPECT_LE(overlap("drift=1"), 4u);
}

TEST_F(Generators, ZipfDriftHasItsRatesAndUsers) {
  const auto events = generate("zipf-drift", {"length_s=10", "accesses_s=5000", "affinity=0.7",
                                              "drift=0", "gpus=4", "write=0.25", "objects=20"});
  double accesses = 0, writes = 0, own = 0;
  std::map<std::uint64_t, std::map<std::uint16_t, double>> users;
  for (const ToldEvent& told : events) {
    if (told.event.kind != TraceEventKind::access) continue;
    ++accesses;
    if (told.event.use == UseKind::write) ++writes;
    ++users[told.event.object][told.event.at.code()];
  }
  for (const auto& [object, counts] : users) {
    double most = 0;
    for (const auto& [at, count] : counts) most = std::max(most, count);
    own += most;
  }
  EXPECT_NEAR(accesses, 50'000, 6 * std::sqrt(50'000));
  expect_drawn(writes, accesses, 0.25);
  expect_drawn(own, accesses, 0.7 + 0.3 / 4);
}

TEST_F(Generators, PhasesHaveDisjointSetsAndOthersEach) {
  const auto events = generate("phase-change", {"gpus=3", "objects=90", "set=10", "phases=3",
                                                "phase_s=0.1", "accesses_s=1000"});
  std::vector<std::map<std::uint16_t, std::set<std::uint64_t>>> phases;
  std::map<std::uint16_t, std::vector<std::uint64_t>> order;  // In the first phase.
  for (const ToldEvent& told : events) {
    if (told.event.kind == TraceEventKind::mark) {
      phases.emplace_back();
      EXPECT_EQ(told.tag, fmt::format("phase {}", phases.size()));
      EXPECT_EQ(told.event.time.count(),
                100'000'000 * static_cast<std::int64_t>(phases.size() - 1));
    }
    if (told.event.kind != TraceEventKind::access) continue;
    phases.back()[told.event.at.code()].insert(told.event.object);
    if (phases.size() == 1) order[told.event.at.code()].push_back(told.event.object);
  }
  ASSERT_EQ(phases.size(), 3u);
  for (const auto& phase : phases) {
    std::set<std::uint64_t> all;
    for (const auto& [at, set] : phase) {
      EXPECT_EQ(set.size(), 10u);
      all.insert(set.begin(), set.end());
    }
    EXPECT_EQ(all.size(), 30u) << "no object is of two GPUs";
  }
  EXPECT_NE(phases[0], phases[1]);
  for (const auto& [at, objects] : order) {
    ASSERT_EQ(objects.size(), 100u);
    for (std::size_t step = 10; step < 100; ++step) EXPECT_EQ(objects[step], objects[step - 10]);
  }
}

TEST_F(Generators, ConsumersReadWhatTheirProducersWrote) {
  const auto events = generate(
      "producer-consumer",
      {"length_s=0.4", "swap_s=0.2", "pairs=3", "period_us=1000", "lag=3", "reads=2", "closed=0"});
  struct Buffer {
    int writer = -1, reads = 2;
  };
  std::map<std::uint64_t, Buffer> buffers;
  std::map<int, int> writes[2];
  int marks = 0;
  for (const ToldEvent& told : events) {
    const TraceEvent& event = told.event;
    if (event.kind == TraceEventKind::mark) ++marks;
    if (event.kind != TraceEventKind::access) continue;
    const int device = event.at.place().ordinal;
    Buffer& buffer = buffers[event.object];
    if (event.use == UseKind::write) {
      ASSERT_EQ(buffer.reads, 2) << "written again before all read it";
      buffer = {device, 0};
      ++writes[event.time >= std::chrono::milliseconds(200) ? 1 : 0][device];
    } else {
      ASSERT_EQ(device, buffer.writer ^ 1) << "the other GPU of the pair";
      ++buffer.reads;
    }
  }
  EXPECT_EQ(marks, 1);
  EXPECT_EQ(buffers.size(), 3u * 4);
  for (const int pair : {0, 1, 2}) {
    EXPECT_EQ(writes[0][2 * pair], 200);
    EXPECT_EQ(writes[0][2 * pair + 1], 0);
    EXPECT_EQ(writes[1][2 * pair], 0);
    EXPECT_EQ(writes[1][2 * pair + 1], 200);
  }
}

TEST_F(Generators, ExpertsAreReadOnceALayerAndStepBySkew) {
  const auto events = generate("moe", {"gpus=2", "layers=3", "experts=16", "chosen=2", "tokens=4",
                                       "steps=400", "alike=0", "drift=0", "skew=1.5"});
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::set<std::uint64_t>> chosen;
  std::map<std::uint16_t, double> first;  // How often GPU 0 reads each expert of layer 0.
  for (const ToldEvent& told : events) {
    if (told.event.kind != TraceEventKind::access) continue;
    const std::uint64_t layer = told.event.object / 16;
    ASSERT_TRUE((chosen[{told.event.task, layer}].insert(told.event.object).second));
    ASSERT_EQ(told.event.at.place().ordinal, static_cast<int>((told.event.task - 1) % 2));
    if (layer == 0 && told.event.at == TracePlace(gpu(0))) {
      ++first[static_cast<std::uint16_t>(told.event.object)];
    }
  }
  EXPECT_EQ(chosen.size(), 400u * 2 * 3);
  for (const auto& [where, experts] : chosen) EXPECT_LE(experts.size(), 8u);
  std::vector<double> counts;
  for (const auto& [expert, count] : first) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  // At least one of eight choices selects the most popular expert.
  const Zipf zipf(16, 1.5);
  expect_drawn(counts[0], 400, 1 - std::pow(1 - zipf.share(0), 8));
}

TEST_F(Generators, RequestsAreServedToTheirEnd) {
  const auto events = generate("serving", {"gpus=2", "length_s=20", "weight_objects=4",
                                           "requests_s=4", "swing=0", "token_bytes=1000"});
  struct Served {
    std::uint64_t bytes = 0, written = 0, read_last = 0;
    bool freed = false;
  };
  std::map<std::uint64_t, Served> requests;
  std::map<std::uint64_t, std::set<int>> weights;
  for (const ToldEvent& told : events) {
    const TraceEvent& event = told.event;
    if (event.kind == TraceEventKind::access) {
      if (event.object < 8) {
        weights[event.object].insert(event.at.place().ordinal);
        continue;
      }
      Served& served = requests.at(event.object);
      if (event.use == UseKind::write) {
        ASSERT_EQ(event.offset, served.written) << "what is new follows what is old";
        served.written += event.bytes;
      } else {
        ASSERT_GE(event.bytes, served.read_last) << "a cache grows";
        served.read_last = event.bytes;
      }
    }
    if (event.kind == TraceEventKind::allocation && told.tag == "kv") {
      requests[event.object].bytes = event.bytes;
    }
    if (event.kind == TraceEventKind::free && event.object >= 8 &&
        event.time < std::chrono::seconds(20)) {
      requests.at(event.object).freed = true;
    }
  }
  ASSERT_EQ(weights.size(), 8u);
  for (const auto& [object, devices] : weights) {
    EXPECT_EQ(devices, std::set<int>{static_cast<int>(object / 4)}) << "each GPU reads its copy";
  }
  EXPECT_NEAR(static_cast<double>(requests.size()), 80, 6 * std::sqrt(80));
  std::size_t freed = 0;
  for (const auto& [object, served] : requests) {
    if (!served.freed) continue;
    ++freed;
    EXPECT_EQ(served.written, served.bytes);
  }
  EXPECT_GT(freed, 10u);
}

// Like `DriftingWorkers` of the example: worker i reads block (i + phase) modulo the number of
// workers.
TEST_F(Generators, BlocksGoRoundAndAreReadWhole) {
  const auto events = generate("rebalance", {"gpus=3", "phases=3", "rounds=5", "chunks=5",
                                             "chunk_bytes=50000", "launch_bytes=100000"});
  std::size_t phases = 0;
  std::map<std::uint64_t, std::uint64_t> read;  // Of a block, in this phase.
  for (const ToldEvent& told : events) {
    const TraceEvent& event = told.event;
    if (event.kind == TraceEventKind::allocation) {
      EXPECT_EQ(event.at, TracePlace(gpu(static_cast<int>(event.object))));
      EXPECT_EQ(event.bytes, 250000u);
      EXPECT_EQ(event.chunk_bytes, 50000u);
    }
    if (event.kind == TraceEventKind::mark) {
      EXPECT_EQ(told.tag, fmt::format("phase {}", phases++));
      read.clear();
    }
    if (event.kind != TraceEventKind::access) continue;
    ASSERT_LE(event.bytes, 100000u);
    ASSERT_EQ(event.offset, read[event.object] % 250000) << "from front to back";
    const auto worker = static_cast<std::uint64_t>(event.at.place().ordinal);
    ASSERT_EQ(event.object, (worker + phases - 1) % 3);
    read[event.object] += event.bytes;
  }
  EXPECT_EQ(phases, 3u);
  EXPECT_EQ(read,
            (std::map<std::uint64_t, std::uint64_t>{{0, 1250000}, {1, 1250000}, {2, 1250000}}));
}

TEST_F(Generators, UnknownOnesAndImpossibleOnesAreRefused) {
  EXPECT_NE(error_of([this] { generate("zip", {}); }).find("known are moe, phase-change"),
            std::string::npos);
  EXPECT_NE(error_of([this] { generate("moe", {"expert=1"}); }).find("is not a parameter"),
            std::string::npos);
  EXPECT_NE(
      error_of([this] { generate("phase-change", {"objects=10"}); }).find("need more than 10"),
      std::string::npos);
}

}  // namespace
}  // namespace vma
