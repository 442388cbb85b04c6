// Goal: whichever allocation of host memory fails during an import, or during a move with an
// importer, in either process, nothing is lost: no descriptor, no driver handle, no place and no
// byte of the exporter. Method: replaces operator new, which fails the n-th allocation of one
// thread, for every n.
#include "runtime/runtime_parts.hpp"
#include "support/failing_memory.hpp"
#include "support/test_machines.hpp"
#include "sim/sim_driver.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <string>

namespace vma {
namespace {

std::atomic<pid_t> failing_thread{0};  // 0: none.
std::atomic<long> failing_number{0}, allocations_seen{0};

bool is_its_turn() {
  const pid_t thread = failing_thread;
  if (thread == 0 || thread != gettid()) return false;
  return ++allocations_seen == failing_number;
}

constexpr std::uint64_t failure_chunk_bytes = 8192;
constexpr std::uint64_t failure_bytes = 3 * failure_chunk_bytes;

class OneSide {
 public:
  OneSide() : machine_(test_machine("test-2"), {nullptr, 1, 64 << 20, false}) {
    Settings settings;
    settings.cache_bytes_per_gpu = 0;
    settings.hold_limit = std::chrono::seconds(20);
    settings.exportable.descriptor = true;
    runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(
        std::make_unique<SparedDriver>(static_cast<Driver&>(machine_)), settings));
  }
  Runtime* operator->() { return runtime_.get(); }
  /// What the machine holds besides what the runtime always has.
  std::size_t held() {
    runtime_->trim(gpu(0));  // Waits for what is released later.
    return machine_.leaks().size();
  }

 private:
  SimDriver machine_;
  std::unique_ptr<Runtime> runtime_;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

/// The thread of that name, once it has it.
pid_t thread_named(const std::string& wanted) {
  pid_t found = 0;
  SteadyClock clock;
  poll_until(clock, clock.now() + std::chrono::seconds(20), [&] {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name == wanted) found = std::stoi(task.path().filename());
    }
    return found != 0;
  });
  return found;
}

class ShareMemoryFailure : public testing::Test {
 protected:
  ShareMemoryFailure() {
    AllocOptions options;
    options.chunk_bytes = failure_chunk_bytes;
    words_ = exporter_->alloc(failure_bytes, gpu(0), options);
    exported_.emplace(exporter_->export_allocation(words_));
    importer_->free(importer_->import_allocation(exported_->path()));  // Whatever is made once.
    settle();
  }

  void settle() {
    SteadyClock clock;
    EXPECT_TRUE(poll_until(clock, clock.now() + std::chrono::seconds(20),
                           [&] { return exported_->importers().empty(); }));
  }

  static void expect_descriptors(std::ptrdiff_t most) {
    SteadyClock clock;
    EXPECT_TRUE(poll_until(clock, clock.now() + std::chrono::seconds(20),
                           [&] { return open_descriptors() <= most; }))
        << open_descriptors() << " descriptors are open, " << most << " were before";
  }

  /// Imports once for every allocation of the thread that can fail.
  void fail_each_of(pid_t thread) {
    const std::size_t exporter_held = exporter_.held(), importer_held = importer_.held();
    std::ptrdiff_t descriptors = open_descriptors();
    bool fired = true;
    for (long number = 1; fired; ++number) {
      SCOPED_TRACE("allocation " + std::to_string(number));
      arm(thread, number);
      void* theirs = nullptr;
      try {
        theirs = importer_->import_allocation(exported_->path());
      } catch (const Error&) {
      } catch (const std::bad_alloc&) {
      }
      fired = disarm(number);
      if (theirs != nullptr) importer_->free(theirs);
      settle();
      EXPECT_EQ(importer_.held(), importer_held);
      EXPECT_EQ(exporter_.held(), exporter_held);
      expect_descriptors(descriptors);
      descriptors = std::min(descriptors, open_descriptors());  // The last import may end late.
      if (HasFailure()) return;
    }
    exporter_->migrate(words_, gpu(1));  // Nobody counts as an importer.
    importer_->free(importer_->import_allocation(exported_->path()));
    EXPECT_GT(failing_number, 20) << "the import allocates";
  }

  static void arm(pid_t thread, long number) {
    allocations_seen = 0;
    failing_number = number;
    allocation_fails = is_its_turn;
    failing_thread = thread;
  }
  /// Whether an allocation has failed.
  static bool disarm(long number) {
    failing_thread = 0;
    return allocations_seen >= number;
  }

  static Place place(OneSide& side, const void* pointer) { return side->where(pointer).front().at; }
  static std::uint64_t first_word(OneSide& side, const void* pointer) {
    std::uint64_t word = 0;
    side->read(pointer, std::as_writable_bytes(std::span(&word, 1)));
    return word;
  }
  void write_word(std::uint64_t word) {
    exporter_->write(words_, std::as_bytes(std::span(&word, 1)));
  }

  /// Moves the memory to and fro with an importer once for every allocation of the thread that can
  /// fail in it.
  void fail_each_of_a_move(const std::function<pid_t()>& thread) {
    void* theirs = importer_->import_allocation(exported_->path());
    for (const Place to : {gpu(1), gpu(0)}) {  // Whatever is made once.
      exporter_->migrate(words_, to);
      write_word(0);
      EXPECT_EQ(first_word(exporter_, words_), first_word(importer_, theirs));
    }
    const std::size_t exporter_held = exporter_.held(), importer_held = importer_.held();
    const std::ptrdiff_t descriptors = open_descriptors();
    bool fired = true;
    long number = 1;
    for (; fired; ++number) {
      SCOPED_TRACE("allocation " + std::to_string(number));
      write_word(static_cast<std::uint64_t>(number));
      MigrateOptions hasty;
      hasty.deadline = std::chrono::milliseconds(200);  // If an announcement is lost.
      arm(thread(), number);
      try {
        exporter_->migrate(words_, gpu(1), hasty);
      } catch (const Error&) {
      } catch (const std::bad_alloc&) {
      }
      fired = disarm(number);
      EXPECT_EQ(first_word(exporter_, words_), static_cast<std::uint64_t>(number));
      EXPECT_EQ(first_word(importer_, theirs), static_cast<std::uint64_t>(number));
      exporter_->migrate(words_, gpu(1));
      exporter_->migrate(words_, gpu(0));
      ASSERT_EQ(exported_->importers().size(), 1u) << "it still is one";
      EXPECT_EQ(place(importer_, theirs), gpu(0));
      EXPECT_EQ(importer_.held(), importer_held);
      EXPECT_EQ(exporter_.held(), exporter_held);
      expect_descriptors(descriptors);
      if (HasFailure()) return;
    }
    EXPECT_GT(number, 5) << "a move allocates";
  }

  OneSide exporter_, importer_;
  void* words_ = nullptr;
  std::optional<ExportedAllocation> exported_;
};

TEST_F(ShareMemoryFailure, OfTheImporterLosesNothing) {
  fail_each_of(gettid());
}

TEST_F(ShareMemoryFailure, OfTheExporterLosesNothing) {
  fail_each_of(thread_named("vmart share"));
}

TEST_F(ShareMemoryFailure, OfTheThreadThatMovesLosesNothing) {
  fail_each_of_a_move(gettid);
}

TEST_F(ShareMemoryFailure, OfTheThreadThatLeadsImportersLosesNothing) {
  fail_each_of_a_move([] { return thread_named("vmart share"); });
}

TEST_F(ShareMemoryFailure, OfTheThreadThatFollowsLosesNothing) {
  fail_each_of_a_move([] { return thread_named("vmart follow"); });
}

}  // namespace
}  // namespace vma
