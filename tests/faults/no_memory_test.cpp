// Goal: want of host memory never ends the process and loses no word: whatever allocation fails in
// whatever thread of the library, a call throws, or reports less. Method: operator new fails at
// random, more and more rarely, while threads use the whole interface of a simulated machine beside
// a scheduler that moves; then nothing fails any more, and all words are compared and freed. The
// simulated driver is spared: it stands for one that does not use this heap.
#include "faults/random_failures.hpp"

#include "control/control_json.hpp"
#include "control/prometheus.hpp"
#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"
#include "support/failing_memory.hpp"
#include "support/test_run.hpp"

#include <vma/pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// Threads that do not start belong to tests of their own: here each start is spared.
class SparedExecutor : public Executor {
 public:
  explicit SparedExecutor(Executor& inner) : inner_(inner) {}
  std::unique_ptr<Task> spawn(const std::string& name, std::function<void()> body) override {
    const Spared spare;
    return inner_.spawn(name, [run = std::move(body)] {
      under_test = true;
      run();
      under_test = false;
    });
  }

 private:
  Executor& inner_;
};

class SparedMachine : public SparedDriver {
 public:
  explicit SparedMachine(std::unique_ptr<SimDriver> machine)
      : SparedDriver(*machine), machine_(std::move(machine)), executor_(machine_->executor()) {}
  SparedExecutor& executor() override { return executor_; }

 private:
  std::unique_ptr<SimDriver> machine_;
  SparedExecutor executor_;
};

/// A piece of memory of a thread of the test, whose words are known.
struct Piece {
  std::uint64_t* words = nullptr;
  std::uint64_t count = 0, seed = 0;
  bool of_pool = false;
};

class NoMemory : public testing::Test {
 protected:
  static constexpr std::uint64_t chunk_bytes = 8192;

  NoMemory() {
    RuntimeOptions options;
    options.policy = "cost_benefit";
    options.gate_limit = std::chrono::seconds(1);
    Settings settings = resolve_settings(options);
    settings.stepped_by_hand = true;
    settings.calibration = "off";
    std::unique_ptr<Driver> driver =
        std::make_unique<SparedMachine>(std::make_unique<SimDriver>(load_machine("test-2")));
    runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(std::move(driver), settings));
    for (int each = 0; each < 2; ++each) {
      streams_.push_back(runtime_->make_stream(gpu(each)));
      runtime_->attach(streams_.back());
    }
    pool_ = runtime_->make_pool(gpu(0));
    allocation_fails = fails;
  }
  ~NoMemory() override {
    fails_one_in = 0;
    allocation_fails = nullptr;
    pool_.destroy();
    for (const Stream stream : streams_) {
      runtime_->detach(stream);
      runtime_->destroy_stream(stream);
    }
    runtime_->shutdown();
  }

  /// Calls the library as a program does that goes on after errors. Checks nothing.
  static void attempt(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
  }

  class User {
   public:
    User(NoMemory& test, std::uint64_t seed) : test_(test), random_(seed), seed_(seed << 32) {
      pieces_.reserve(pieces_max);
    }
    void run(int calls) {
      under_test = true;
      for (int i = 0; i < calls; ++i) {
        const auto call = calls_[random_() % std::size(calls_)];
        attempt([&] { (this->*call)(); });
      }
      under_test = false;
    }
    /// Requires: nothing fails any more.
    void check_and_free() {
      for (const Piece& piece : pieces_) {
        std::vector<std::uint64_t> now(piece.count);
        runtime().read(piece.words, std::as_writable_bytes(std::span(now)));
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 0; i < piece.count; ++i) wrong += now[i] != piece.seed + i;
        EXPECT_EQ(wrong, 0u) << "of " << piece.count << " words";
        runtime().free(piece.words);
      }
      pieces_.clear();
    }

   private:
    static constexpr std::size_t pieces_max = 12;

    Runtime& runtime() { return *test_.runtime_; }
    Place any_place() {
      const Place places[] = {gpu(0), gpu(1), host(0)};
      return places[random_() % std::size(places)];
    }
    Piece& any() {
      if (pieces_.empty()) throw Error(ErrorKind::cancelled, "test", "no memory yet");
      return pieces_[random_() % pieces_.size()];
    }
    MigrateOptions any_way() {
      MigrateOptions options;
      if (random_() % 2 == 0) options.scope = StopScope::attached;
      options.deadline = std::chrono::milliseconds(200);
      options.reserve_first = random_() % 4 == 0;
      options.all_or_nothing = random_() % 4 == 0;
      if (random_() % 4 == 0) options.on_progress = [](const MigrationProgress&) {};
      return options;
    }
    /// The words are written before anything else can happen to them.
    void keep(void* pointer, std::uint64_t bytes, bool of_pool) {
      Piece piece{static_cast<std::uint64_t*>(pointer), bytes / 8, seed_ += 1 << 20, of_pool};
      const Spared spare;
      std::vector<std::uint64_t> words(piece.count);
      for (std::uint64_t i = 0; i < piece.count; ++i) words[i] = piece.seed + i;
      runtime().write(pointer, std::as_bytes(std::span(words)));
      pieces_.push_back(piece);
    }

    void allocate() {
      if (pieces_.size() == pieces_max) return;
      AllocOptions options;
      options.chunk_bytes = random_() % 2 == 0 ? chunk_bytes : 0;
      options.tag = "a tag that is too long for the string to hold it inside";
      options.zeroed = random_() % 4 == 0;
      options.pool = random_() % 4 == 0;
      const std::uint64_t bytes = 8 * (1 + random_() % 5'000);
      keep(random_() % 2 == 0 ? runtime().alloc(bytes, options)
                              : runtime().alloc(bytes, any_place(), options),
           bytes, false);
    }
    void allocate_in_pool() {
      if (pieces_.size() == pieces_max) return;
      const std::uint64_t bytes = 8 * (1 + random_() % 1'000);
      keep(random_() % 2 == 0 ? test_.pool_.allocate(bytes, test_.streams_[0])
                              : runtime().alloc_async(bytes, test_.streams_[1]),
           bytes, true);
    }
    void free() {
      Piece& piece = any();
      if (random_() % 2 == 0) {
        runtime().free(piece.words);
      } else {
        runtime().free_async(piece.words, test_.streams_[random_() % 2]);
      }
      piece = pieces_.back();
      pieces_.pop_back();
    }
    void migrate() { runtime().migrate(any().words, any_place(), any_way()); }
    void migrate_part() {
      const Piece& piece = any();
      runtime().migrate(piece.words, 8 * (random_() % piece.count), 8, any_place(), any_way());
    }
    void migrate_many() {
      std::vector<MoveRequest> requests;
      const Place to = any_place();
      for (int i = 0; i < 4; ++i) requests.push_back({any().words, to});
      if (random_() % 2 == 0) {
        runtime().migrate(requests, any_way());
        return;
      }
      const MigrationGroup group = runtime().migrate_async(requests, any_way());
      if (random_() % 2 == 0) group.cancel();
      group.on_done([] {});
      static_cast<void>(group.report());
      group.wait();
    }
    void migrate_in_background() {
      const Migration migration = runtime().migrate_async(any().words, any_place(), any_way());
      migration.on_done([] {});
      if (random_() % 2 == 0) migration.wait();
    }
    void move_the_pool() { runtime().migrate(test_.pool_, any_place(), any_way()); }
    void pin() {
      const Pin pin = runtime().pin(any().words);
      attempt([&] { migrate(); });
    }
    void make_read_only() {
      const ReadOnly read_only = runtime().read_only(any().words);
      attempt([&] { migrate(); });
    }
    void hook() {
      const MoveHookRegistration hook =
          runtime().on_move(any().words, {[](const MoveEvent&) {}, [](const MoveEvent&) {}});
      attempt([&] { migrate(); });
    }
    void attach() {
      void* const words = any().words;
      const AttachedStream attached(runtime(), test_.streams_[random_() % 2], words);
      attempt([&] { migrate(); });
    }
    void park() {
      static const std::string tag = "a tag that is too long for the string to hold it inside";
      attempt([&] { runtime().park(tag, {{}, any_way()}); });
      for (int tries = 0; runtime().is_parked(tag) && tries < 3; ++tries) {
        attempt([&] { runtime().resume(tag, {{}, any_way()}); });
      }
    }
    void limit() {
      runtime().set_capacity(gpu(1), (1 + random_() % 64) << 14);
      attempt([&] { allocate(); });
      runtime().set_capacity(gpu(1), SIZE_MAX);
      runtime().trim(any_place());
      test_.pool_.trim(0);
      runtime().reserve(any_place(), 2 * chunk_bytes, chunk_bytes);
    }
    void use_and_decide() {
      for (int i = 0; i < 4; ++i) {
        const Piece& piece = any();
        runtime().record_use(piece.words, 8 * piece.count, gpu(static_cast<int>(random_() % 2)));
        Hint hint;
        hint.device = gpu(1);
        runtime().advise(piece.words, 8, hint);
      }
      runtime().step_scheduler();
    }
    void drain() {
      const Place at = any_place();
      attempt([&] { runtime().drain(at, {std::chrono::milliseconds(100)}); });
      const Spared spare;
      runtime().refill(at);
    }
    void look() {
      static_cast<void>(runtime().where(any().words));
      static_cast<void>(runtime().allocations());
      static_cast<void>(runtime().explain(any().words));
      static_cast<void>(runtime().description());
      const ControlStats stats{runtime().stats(), runtime().scheduler_stats()};
      static_cast<void>(to_json(stats));
      static_cast<void>(prometheus_text(stats));
      static_cast<void>(test_.pool_.stats());
    }
    void launch() {
      runtime().launch_recorded(test_.streams_[0], Kernel{"", "spin", {}}, {}, {},
                                KernelArguments::of(std::uint64_t{100}));
    }
    void set_policy() {
      const char* const names[] = {"counter", "stay_put", "cost_benefit"};
      runtime().set_policy(names[random_() % std::size(names)]);
    }
    void scope() { const CopyScope scope; }

    using Call = void (User::*)();
    static constexpr Call calls_[] = {&User::allocate,
                                      &User::allocate,
                                      &User::allocate_in_pool,
                                      &User::free,
                                      &User::migrate,
                                      &User::migrate,
                                      &User::migrate_part,
                                      &User::migrate_many,
                                      &User::migrate_in_background,
                                      &User::move_the_pool,
                                      &User::pin,
                                      &User::make_read_only,
                                      &User::hook,
                                      &User::attach,
                                      &User::park,
                                      &User::limit,
                                      &User::use_and_decide,
                                      &User::use_and_decide,
                                      &User::drain,
                                      &User::look,
                                      &User::launch,
                                      &User::set_policy,
                                      &User::scope};

    NoMemory& test_;
    std::mt19937_64 random_;
    std::uint64_t seed_;
    std::vector<Piece> pieces_;
  };

  std::unique_ptr<Runtime> runtime_;
  std::vector<Stream> streams_;
  Pool pool_;
};

TEST_F(NoMemory, EndsNoProcessAndLosesNoWord) {
  const std::uint64_t seed = run_seed();
  SCOPED_TRACE(seed);
  failing_state = seed;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(long_run() ? 30 : 2);
  const std::uint64_t rates[] = {7, 31, 127, 503, 2'003};
  std::uint64_t rounds = 0;
  while (rounds < std::size(rates) || std::chrono::steady_clock::now() < end) {
    fails_one_in = rates[rounds % std::size(rates)];
    std::vector<User> users;
    {
      const Spared spare;
      for (std::uint64_t each = 0; each < 3; ++each) {
        users.emplace_back(*this, seed + 3 * rounds + each + 1);
      }
      std::vector<std::thread> threads;
      for (User& user : users) threads.emplace_back([&user] { user.run(60); });
      for (std::thread& thread : threads) thread.join();
    }
    fails_one_in = 0;
    for (User& user : users) user.check_and_free();
    ++rounds;
  }
  EXPECT_GT(failures, 100u);
}

}  // namespace
}  // namespace vma
