// Goal: kernels that never pause lose no write to blocks of pools, which are freed, reused in
// stream order and moved meanwhile; and the test fails if memory is reused early or a gate stops
// nothing. Method: random atomic adds to a block and to a twin that stays, compared by a kernel
// before the block is freed. VMART_TWIN_SWITCHES sets the number of switches; runs with thousands
// are started by hand.
#include "contract/child_process.hpp"
#include "gpu/gpu_test.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "support/test_run.hpp"
#include "support/twin_kernels.hpp"
#include "twin/bug_driver.hpp"

#include <vma/pool.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

namespace vma {
namespace {

constexpr Dim3 twin_shape{8}, twin_threads{256};
constexpr std::size_t word_bytes = sizeof(std::uint64_t);

struct PoolTwinPlan {
  std::uint64_t seed = 1;
  int streams_per_gpu = 4;
  int blocks_per_stream = 3;
  std::uint64_t lines_max = 1 << 14;  ///< Of a block: 8 MiB.
  std::uint64_t adds_max = 2'000;
  std::uint64_t switches = 300;
  std::chrono::microseconds gate_limit{5'000};
  TwinBug bug = TwinBug::none;
  /// The pool has few blocks, all equally large, and their frees come late.
  bool compete = false;
  /// Tells the pool of events that nobody waited for, so that it reuses memory early.
  bool lies = false;
};

struct PoolTwinOutcome {
  std::uint64_t switches = 0, blocks = 0, launches = 0, words_different = 0;
  std::string problem;  ///< Empty if nothing else than differing words went wrong.
};

Settings settings_of(const PoolTwinPlan& plan) {
  Settings settings;
  settings.hold_limit = std::chrono::seconds(10);
  settings.gate_limit = plan.gate_limit;
  settings.gate_retries = 8;
  settings.stall_budget = std::chrono::microseconds(0);  // No limit: many switches in little time.
  return settings;
}

class PoolTwinRig {
 public:
  PoolTwinRig(std::unique_ptr<Driver> driver, const PoolTwinPlan& plan);

  /// Moves until `switches` chunks were switched.
  PoolTwinOutcome play();

 private:
  /// A block, if there is one, and the memory of its twin.
  struct Slot {
    std::uint64_t* block = nullptr;
    std::uint64_t* twin = nullptr;
    std::uint64_t lines = 0;
  };
  struct Line {
    Stream stream = nullptr;
    EventHandle event{};
    std::vector<Slot> slots;
  };
  /// Keeps the streams of one GPU busy, with a few launches each.
  class Writer {
   public:
    Writer(PoolTwinRig& rig, int ordinal);

    void write();
    /// Gives its streams back. Requires: nothing runs any more.
    void end();
    std::uint64_t words_different();

   private:
    void play(Line& line, Slot& slot);
    void begin(Line& line, Slot& slot);
    void end(Line& line, Slot& slot);
    void order(Line& after, Line& before);
    void launch(Stream stream, const Kernel& kernel, const KernelArguments& arguments);

    PoolTwinRig& rig_;
    std::mt19937_64 random_;
    std::vector<Line> lines_;
    std::vector<AttachedStream> attached_;
    std::uint64_t* different_ = nullptr;
  };

  void move();
  std::uint64_t move_some();
  void note(void* block, bool lives);
  void fail(const std::string& problem);
  BoundStream bind(Stream stream) { return parts_of(*runtime_).machinery->launcher.bind(stream); }

  const PoolTwinPlan plan_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Runtime> runtime_;
  Pool pool_;
  std::vector<Place> places_;
  std::mt19937_64 random_;
  std::atomic<bool> finished_{false};
  std::atomic<std::uint64_t> launches_{0}, blocks_{0};
  std::mutex mutex_;
  std::vector<void*> living_;
  PoolTwinOutcome outcome_;
};

PoolTwinRig::PoolTwinRig(std::unique_ptr<Driver> driver, const PoolTwinPlan& plan)
    : plan_(plan), driver_(std::move(driver)), random_(plan.seed) {
  auto bugs = std::make_unique<BugDriver>(*driver_, plan.bug, plan.gate_limit);
  runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(std::move(bugs), settings_of(plan)));
  places_ = runtime_->places();
  PoolOptions options;
  options.chunk_bytes = gpu_chunk_bytes;
  if (plan.lies) options.reuse = {true, false, false};
  if (plan.compete) {
    options.max_bytes = 3 * plan.lines_max * twin_line_words * word_bytes;
  }
  pool_ = runtime_->make_pool(gpu(0), options);
}

void PoolTwinRig::fail(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (outcome_.problem.empty()) outcome_.problem = problem;
  finished_ = true;
}

void PoolTwinRig::note(void* block, bool lives) {
  const std::lock_guard lock(mutex_);
  if (lives) {
    living_.push_back(block);
    ++blocks_;
  } else {
    std::erase(living_, block);
  }
}

PoolTwinRig::Writer::Writer(PoolTwinRig& rig, int ordinal)
    : rig_(rig), random_(rig.plan_.seed * 100 + static_cast<unsigned>(ordinal)) {
  AllocOptions still;
  still.movable = false;
  still.zeroed = true;
  Runtime& runtime = *rig.runtime_;
  different_ = static_cast<std::uint64_t*>(runtime.alloc(word_bytes, gpu(ordinal), still));
  const std::uint64_t twin_bytes = rig.plan_.lines_max * twin_line_words * word_bytes;
  for (int i = 0; i < rig.plan_.streams_per_gpu; ++i) {
    Line line;
    line.stream = runtime.make_stream(gpu(ordinal));
    line.event = rig.driver_->create_event(rig.bind(line.stream).context);
    for (int slot = 0; slot < rig.plan_.blocks_per_stream; ++slot) {
      void* const twin = runtime.alloc(twin_bytes, gpu(ordinal), still);
      line.slots.push_back({nullptr, static_cast<std::uint64_t*>(twin), 0});
    }
    attached_.emplace_back(runtime, line.stream, nullptr, StreamWork::no_graphs);
    lines_.push_back(std::move(line));
  }
}

void PoolTwinRig::Writer::end() {
  attached_.clear();
  for (const Line& line : lines_) {
    rig_.driver_->destroy_event(line.event);
    rig_.runtime_->destroy_stream(line.stream);
  }
}

void PoolTwinRig::Writer::launch(Stream stream, const Kernel& kernel,
                                 const KernelArguments& arguments) {
  rig_.runtime_->launch(stream, kernel, twin_shape, twin_threads, arguments);
  ++rig_.launches_;
}

void PoolTwinRig::Writer::write() {
  while (!rig_.finished_) {
    for (Line& line : lines_) play(line, line.slots[random_() % line.slots.size()]);
    // All others continue meanwhile.
    rig_.runtime_->synchronize(lines_[random_() % lines_.size()].stream);
  }
  for (Line& line : lines_) {
    for (Slot& slot : line.slots) {
      if (slot.block != nullptr) end(line, slot);
    }
  }
  for (const Line& line : lines_) rig_.runtime_->synchronize(line.stream);
}

void PoolTwinRig::Writer::play(Line& line, Slot& slot) {
  if (slot.block == nullptr) return begin(line, slot);
  for (std::uint64_t left = 1 + random_() % 3; left > 0; --left) {
    launch(line.stream, twin_add_kernel(),
           twin_add_arguments({slot.block, slot.twin, slot.lines},
                              {random_(), 1 + random_() % rig_.plan_.adds_max, 1}));
  }
  if (random_() % 4 == 0) end(line, slot);
}

void PoolTwinRig::Writer::begin(Line& line, Slot& slot) {
  const bool compete = rig_.plan_.compete;
  slot.lines = std::max<std::uint64_t>(1, rig_.plan_.lines_max >> (compete ? 0 : random_() % 15));
  if (rig_.plan_.lies) rig_.pool_.order(line.stream, lines_[random_() % lines_.size()].stream);
  const std::uint64_t words = slot.lines * twin_line_words, seed = random_();
  try {
    slot.block = static_cast<std::uint64_t*>(rig_.pool_.allocate(words * word_bytes, line.stream));
  } catch (const Error& error) {
    if (compete && error.kind() == ErrorKind::out_of_memory) return;
    throw;
  }
  rig_.note(slot.block, true);
  for (std::uint64_t* const target : {slot.block, slot.twin}) {
    launch(line.stream, fill_kernel(), KernelArguments::of(target, words, seed));
  }
}

/// Compares, then frees on this stream or on another one that waits for it.
void PoolTwinRig::Writer::end(Line& line, Slot& slot) {
  if (rig_.plan_.compete) {
    launch(line.stream, spin_kernel(), KernelArguments::of(std::uint64_t{2'000'000}));
  }
  launch(line.stream, twin_compare_kernel(),
         KernelArguments::of(slot.block, slot.twin, slot.lines * twin_line_words, different_));
  Line& last = random_() % 4 == 0 ? lines_[random_() % lines_.size()] : line;
  if (&last != &line) order(last, line);
  rig_.note(slot.block, false);
  rig_.pool_.deallocate(std::exchange(slot.block, nullptr), last.stream);
}

void PoolTwinRig::Writer::order(Line& after, Line& before) {
  rig_.driver_->record(before.event, rig_.bind(before.stream));
  rig_.driver_->stream_wait_event(rig_.bind(after.stream), before.event);
  rig_.pool_.order(after.stream, before.stream);
}

std::uint64_t PoolTwinRig::Writer::words_different() {
  std::uint64_t count = 0;
  rig_.runtime_->read(different_, std::as_writable_bytes(std::span(&count, 1)));
  return count;
}

/// The whole pool, or the chunks of a block, which may be freed at any time.
std::uint64_t PoolTwinRig::move_some() {
  const Place to = places_[random_() % places_.size()];
  MigrateOptions options;
  options.scope = StopScope::attached;
  try {
    if (random_() % 2 == 0) {
      return static_cast<std::uint64_t>(runtime_->migrate(pool_, to, options).total.chunks_moved);
    }
    Migration move;
    {
      const std::lock_guard lock(mutex_);  // The block lives while the call names it.
      if (living_.empty()) return 0;
      move = runtime_->migrate_async(living_[random_() % living_.size()], to, options);
    }
    return static_cast<std::uint64_t>(move.wait().chunks_moved);
  } catch (const Error& error) {
    // A segment or a block is given back meanwhile, or all gates are given up.
    const ErrorKind kind = error.kind();
    if (kind != ErrorKind::busy && kind != ErrorKind::unknown_pointer &&
        kind != ErrorKind::cancelled) {
      throw;
    }
    if (error.report() == nullptr) return 0;
    return static_cast<std::uint64_t>(error.report()->chunks_moved);
  }
}

void PoolTwinRig::move() {
  while (outcome_.switches < plan_.switches && !finished_) {
    const std::uint64_t switched = move_some();
    outcome_.switches += switched;
    if (switched == 0) std::this_thread::yield();  // No block lives, or all gates were given up.
  }
}

PoolTwinOutcome PoolTwinRig::play() {
  std::vector<std::unique_ptr<Writer>> writers;
  for (const Place place : places_) {
    if (place.kind == Place::Kind::gpu) {
      writers.push_back(std::make_unique<Writer>(*this, place.ordinal));
    }
  }
  std::vector<std::thread> threads;
  for (const auto& writer : writers) {
    threads.emplace_back([&] {
      try {
        writer->write();
      } catch (const std::exception& error) {
        fail(error.what());
      }
    });
  }
  try {
    while (blocks_ < writers.size() * 4 && !finished_) std::this_thread::yield();
    move();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  finished_ = true;
  for (std::thread& thread : threads) thread.join();
  try {
    for (const auto& writer : writers) {
      outcome_.words_different += writer->words_different();
      writer->end();  // A broken context stays broken, and its streams with it.
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
  outcome_.launches = launches_;
  outcome_.blocks = blocks_;
  return outcome_;
}

template <typename Machine>
class PoolTwins : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = simulated ? why_not_chosen<Machine>() : why_left_out<Machine>();
    if (!why_not.empty()) GTEST_SKIP() << "SKIPPED: " << why_not;
  }

  static constexpr bool simulated = std::is_same_v<Machine, SimulatedGpus>;

  PoolTwinPlan plan() const {
    PoolTwinPlan plan;
    plan.seed = run_seed();
    plan.switches = number_from_environment("VMART_TWIN_SWITCHES", simulated ? 20 : 300);
    if (simulated) {  // One processor does all the work.
      plan.streams_per_gpu = 2;
      plan.lines_max = 1 << 11;
      plan.adds_max = 16;
      plan.gate_limit = std::chrono::milliseconds(500);
    }
    return plan;
  }
  PoolTwinOutcome play(const PoolTwinPlan& plan) {
    const PoolTwinOutcome outcome = PoolTwinRig(Machine::open(), plan).play();
    fmt::print("{} switches, {} blocks, {} launches, {} words wrong {}\n", outcome.switches,
               outcome.blocks, outcome.launches, outcome.words_different, outcome.problem);
    return outcome;
  }
  void expect_equal(const PoolTwinPlan& plan) {
    const PoolTwinOutcome outcome = play(plan);
    EXPECT_EQ(outcome.problem, "");
    EXPECT_EQ(outcome.words_different, 0u);
    EXPECT_GE(outcome.switches, plan.switches);
    fmt::print("VMART_COUNT pool_twin_switches={}\n", outcome.switches);
  }
  /// A broken context stays broken, so a test that may break one runs in its own process.
  void expect_found(const std::function<void(PoolTwinPlan&)>& plant,
                    const std::function<bool(const PoolTwinOutcome&)>& is_found) {
    constexpr std::chrono::seconds limit(120);
    if (!simulated && !inside_child()) return run_current_test_in_child(limit);
    constexpr unsigned seeds_max = 20;
    for (unsigned i = 0; i < seeds_max; ++i) {
      PoolTwinPlan broken = plan();
      broken.seed += i;
      broken.switches = std::min<std::uint64_t>(broken.switches, 60);
      plant(broken);
      if (is_found(play(broken))) return;
    }
    ADD_FAILURE() << "nobody noticed";
  }
};
TYPED_TEST_SUITE(PoolTwins, GpuMachines, GpuMachineNames);

TYPED_TEST(PoolTwins, AreEqualThoughBlocksAreReusedAndMoved) {
  this->expect_equal(this->plan());
}

TYPED_TEST(PoolTwins, AreEqualThoughStreamsCompeteForBlocks) {
  PoolTwinPlan plan = this->plan();
  plan.compete = true;
  this->expect_equal(plan);
}

TYPED_TEST(PoolTwins, DifferIfMemoryIsReusedEarly) {
  this->expect_found([](PoolTwinPlan& plan) { plan.compete = plan.lies = true; },
                     [](const PoolTwinOutcome& outcome) {
                       EXPECT_EQ(outcome.problem, "");
                       return outcome.words_different > 0;
                     });
}

// A kernel may also meet memory that is not mapped at the moment.
TYPED_TEST(PoolTwins, DifferIfGatesStopNothing) {
  this->expect_found([](PoolTwinPlan& plan) { plan.bug = TwinBug::no_gate; },
                     [](const PoolTwinOutcome& outcome) {
                       return outcome.words_different > 0 || !outcome.problem.empty();
                     });
}

}  // namespace
}  // namespace vma
