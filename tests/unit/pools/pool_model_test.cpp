// Goal: no two live blocks overlap, no block changes while it is live, and nothing is lost,
// whatever threads allocate, free, capture, move, trim and destroy pools at the same time. Method:
// random operations by several threads, each with a stream of its own that is late at times. Each
// block is filled by a kernel of the stream that allocated it and compared by one of the stream
// that frees it; all live blocks are in a plain map. VMART_LONG makes it a million operations,
// VMART_SEED sets the seed.
#include "unit/pools/pool_rig.hpp"

#include "driver/native_codes.hpp"
#include "support/test_run.hpp"
#include "unit/memory/memory_rig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vma {
namespace {

std::uint64_t operations() {
  return long_run() ? 1'000'000 : 12'000;
}

/// The plain model: which bytes are live.
class LiveBlocks {
 public:
  void enter(const void* block, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(block);
    const auto after = blocks_.lower_bound(begin);
    if (after != blocks_.end()) {
      EXPECT_LE(begin + bytes, after->first) << "blocks overlap";
    }
    if (after != blocks_.begin()) {
      EXPECT_LE(std::prev(after)->first + std::prev(after)->second, begin) << "blocks overlap";
    }
    blocks_[begin] = bytes;
    bytes_ += bytes;
  }
  void leave(const void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(block));
    bytes_ -= found->second;
    blocks_.erase(found);
  }
  std::uint64_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::uint64_t> blocks_;
  std::uint64_t bytes_ = 0;
};

/// A pool that any thread destroys at any time, with its live blocks; another one replaces it.
class PassingPool {
 public:
  PassingPool(PoolRig& rig, const PoolOptions& options) : rig_(rig), options_(options) {}

  Pool get() {
    const std::lock_guard lock(mutex_);
    if (!pool_) pool_ = rig_.runtime().make_pool(gpu(0), options_);
    return pool_;
  }
  void destroy() {
    Pool last;
    {
      const std::lock_guard lock(mutex_);
      last = std::exchange(pool_, Pool());
      if (!last) return;
      destroyed_.push_back(last);
    }
    last.destroy();
  }
  std::vector<Pool> destroyed() {
    const std::lock_guard lock(mutex_);
    return destroyed_;
  }

 private:
  PoolRig& rig_;
  const PoolOptions options_;
  std::mutex mutex_;
  Pool pool_;
  std::vector<Pool> destroyed_;
};

/// Work that is submitted while a hold closes is neither waited for nor held, as the architecture
/// page says, so nobody submits work while a move begins; what was submitted still runs.
std::shared_mutex submitting;

/// One thread with its stream and its blocks.
class Player {
 public:
  Player(PoolRig& rig, const Pool& pool, PassingPool& passing, LiveBlocks& live,
         std::uint64_t* mismatches, std::uint64_t seed)
      : rig_(rig),
        pool_(pool),
        passing_(passing),
        live_(live),
        mismatches_(mismatches),
        random_(seed),
        seed_(seed) {
    streams_ = {rig.new_stream(), rig.new_stream(), PoolRig::as_stream(rig.foreign_stream())};
  }

  void play(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) {
      const std::uint64_t what = random_() % 1000;
      if (what < 480) {
        allocate();
      } else if (what < 960) {
        free_one(random_() % std::max<std::size_t>(blocks_.size(), 1));
      } else if (what < 975) {
        delay();
      } else if (what < 980) {
        capture();
      } else if (what < 990) {
        order(any_stream(), any_stream());
      } else if (what < 995) {
        pool_.trim(random_() % (8 << 20));
      } else if (what < 997) {
        passing_.destroy();
      } else {
        rig_.runtime().synchronize(any_stream());
      }
    }
    while (!blocks_.empty()) free_one(0);
    for (const Stream stream : streams_) rig_.finish(stream);
  }
  std::uint64_t refused() const { return refused_; }

 private:
  struct Owned {
    std::uint64_t* words = nullptr;
    std::uint64_t count = 0;
    std::uint64_t seed = 0;
    Stream stream = nullptr;
  };

  Pool any_pool() { return random_() % 4 == 0 ? passing_.get() : pool_; }
  Stream any_stream() { return streams_[random_() % streams_.size()]; }

  std::uint64_t any_words() {
    switch (random_() % 8) {
      case 0: return 1 + random_() % (1 << 17);  // Up to 1 MiB.
      case 1: return 1 + random_() % 8192;
      default: return 1 + random_() % 512;
    }
  }

  void allocate() {
    const std::uint64_t alignment = random_() % 16 == 0 ? 256 << random_() % 6 : 256;
    Owned owned{nullptr, any_words(), ++seed_ << 20, any_stream()};
    try {
      owned.words = static_cast<std::uint64_t*>(
          any_pool().allocate(8 * owned.count, owned.stream, alignment));
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::out_of_memory || destroyed(error)) << error.what();
      ++refused_;
      return;
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(owned.words) % alignment, 0u);
    live_.enter(owned.words, 8 * owned.count);
    fill(owned);
    blocks_.push_back(owned);
  }

  static bool destroyed(const Error& error) {
    return error.kind() == ErrorKind::invalid_argument &&
           std::string(error.what()).find("the pool was destroyed") != std::string::npos;
  }

  /// The pool must be told the truth: `after` waits for an event.
  void order(Stream after, Stream before) {
    Driver& driver = rig_.driver();
    Launcher& launcher = parts_of(rig_.runtime()).machinery->launcher;
    const BoundStream first = launcher.bind(before);
    const EventHandle event = driver.create_event(first.context);
    driver.record(event, first);
    driver.stream_wait_event(launcher.bind(after), event);
    for (const Pool& pool : {pool_, passing_.get()}) pool.order(after, before);
    driver.destroy_event(event);
  }

  /// At times on another stream, after the first one's work.
  void free_one(std::size_t which) {
    if (blocks_.empty()) return;
    const Owned owned = blocks_[which];
    blocks_[which] = blocks_.back();
    blocks_.pop_back();
    compare(owned);
    Stream last = owned.stream;
    if (random_() % 8 == 0) {
      rig_.finish(owned.stream);
      last = any_stream();
    }
    live_.leave(owned.words);
    if (random_() % 64 == 0) {
      rig_.finish(owned.stream);
      rig_.runtime().free(owned.words);
    } else {
      pool_.deallocate(owned.words, last);
    }
  }

  void delay() {
    const std::shared_lock lock(submitting);
    rig_.runtime().launch(any_stream(), Kernel{"", "spin", {}}, {}, {},
                          KernelArguments::of(std::uint64_t{200'000}));
  }

  /// A graph that fills two blocks and frees the second one, launched twice. A hold of the moves
  /// may end the capture at any time.
  void capture() {
    Driver& driver = rig_.driver();
    const Stream stream = streams_[0];
    const BoundStream bound = parts_of(rig_.runtime()).machinery->launcher.bind(stream);
    std::vector<Owned> made;
    const Pool pool = any_pool();
    bool freed = false;
    driver.begin_capture(bound, CaptureMode::thread_local_mode);
    try {
      for (int i = 0; i < 2; ++i) {
        Owned owned{nullptr, any_words() % 1000 + 1, ++seed_ << 20, stream};
        owned.words = static_cast<std::uint64_t*>(pool.allocate(8 * owned.count, stream));
        live_.enter(owned.words, 8 * owned.count);
        made.push_back(owned);
        fill(owned);
      }
      pool.deallocate(made[1].words, stream);
      freed = true;
    } catch (const Error& error) {
      ++refused_;
    }
    try {
      const GraphHandle graph = driver.end_capture(bound);
      const ExecGraphHandle ready = driver.instantiate(graph);
      driver.destroy_graph(graph);
      {
        const std::shared_lock lock(submitting);
        driver.launch_graph(bound, ready);
        driver.launch_graph(bound, ready);
      }
      rig_.finish(stream);
      if (freed) live_.leave(std::exchange(made[1].words, nullptr));
      driver.destroy_exec_graph(ready);
    } catch (const Error& error) {
      EXPECT_EQ(error.native(), native_stream_capture_invalidated) << error.what();
      if (freed) live_.leave(std::exchange(made[1].words, nullptr));
    }
    for (const Owned& owned : made) {
      if (owned.words == nullptr) continue;
      fill(owned);  // It may be in no graph.
      blocks_.push_back(owned);
    }
  }

  void compare(const Owned& owned) {
    const std::shared_lock lock(submitting);
    rig_.runtime().launch(owned.stream, compare_kernel(), {}, {},
                          KernelArguments::of(owned.words, owned.count, owned.seed, mismatches_));
  }

  void fill(const Owned& owned) {
    const std::shared_lock lock(submitting);
    rig_.runtime().launch(owned.stream, fill_kernel(), {}, {},
                          KernelArguments::of(owned.words, owned.count, owned.seed));
  }

  PoolRig& rig_;
  const Pool pool_;
  PassingPool& passing_;
  LiveBlocks& live_;
  std::uint64_t* const mismatches_;
  std::mt19937_64 random_;
  std::uint64_t seed_;
  std::uint64_t refused_ = 0;
  std::vector<Stream> streams_;
  std::vector<Owned> blocks_;
};

TEST(PoolModel, RandomOperationsOfSeveralThreads) {
  constexpr std::uint64_t threads = 4;
  const std::uint64_t each = operations() / threads;
  PoolRig rig;
  PoolOptions options;
  options.max_bytes = 24 << 20;
  options.chunk_bytes = 256 * 1024;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  auto* mismatches = rig.alloc(8, host(0));
  rig.write(mismatches, 1, 0);
  LiveBlocks live;
  PassingPool passing(rig, options);
  std::vector<std::unique_ptr<Player>> players;
  for (std::uint64_t i = 0; i < threads; ++i) {
    players.push_back(std::make_unique<Player>(rig, pool, passing, live, mismatches,
                                               run_seed() + (i + 1) * 1'000'003));
  }
  std::atomic<std::uint64_t> playing{threads};
  std::vector<std::thread> running;
  for (const auto& player : players) {
    running.emplace_back([&] {
      player->play(each);
      --playing;
    });
  }
  std::uint64_t moves = 0;
  SteadyClock clock;
  for (Place to = gpu(1); playing > 0; to = to == gpu(0) ? gpu(1) : gpu(0)) {
    MigrateOptions move;
    move.deadline = std::chrono::milliseconds(200);
    try {
      const std::unique_lock lock(submitting);
      for (const Pool& moving : {pool, passing.get()}) {
        moves += rig.runtime().migrate(moving, to, move).requests.size();
      }
    } catch (const Error& error) {  // Given back meanwhile, or busy.
      static_cast<void>(error);
    }
    poll_until(clock, clock.now() + std::chrono::milliseconds(20), [&] { return playing == 0; });
  }
  for (std::thread& thread : running) thread.join();
  std::uint64_t wrong = 0;
  rig.runtime().read(mismatches, std::as_writable_bytes(std::span(&wrong, 1)));
  EXPECT_EQ(wrong, 0u) << "words changed while their block was live";
  pool.synchronize();
  pool.trim(0);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
  passing.destroy();
  for (const Pool& destroyed : passing.destroyed()) {
    EXPECT_TRUE(comes_true([&] { return destroyed.stats().reserved_bytes == 0; }));
    EXPECT_EQ(destroyed.stats().used_bytes, 0u);
  }
  EXPECT_TRUE(comes_true([&] { return rig.pools().count() == 1; })) << "pools that have ended";
  std::uint64_t refused = 0;
  for (const auto& player : players) refused += player->refused();
  fmt::print("{} operations, seed {}, {} allocations refused, {} moves, {} pools destroyed\n",
             each * threads, run_seed(), refused, moves, passing.destroyed().size());
}

}  // namespace
}  // namespace vma
