// Goal: an access that cannot be served is a segmentation fault as any other, with a line that says
// why; no thread waits for ever, and addresses of others stay theirs.
#include "base/process_exit.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/drivers/fault_driver.hpp"
#include "machine/machine_file.hpp"
#include "support/sanitizer.hpp"
#include "unit/cpu_faults/segmentation_faults.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <vma/vma.hpp>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace vma {
namespace {

class RefusedFault : public testing::Test {
 protected:
  std::uint64_t* alloc(Place at, std::uint64_t bytes = 4 * chunk_bytes) {
    AllocOptions options;
    options.chunk_bytes = chunk_bytes;
    options.tag = "array";
    options.cpu_access = CpuAccess::fault;
    return static_cast<std::uint64_t*>(runtime().alloc(bytes, at, options));
  }
  Runtime& runtime() { return rig.runtime(); }
  std::shared_ptr<Allocation> allocation_of(const void* pointer) {
    return parts_of(runtime()).machinery->memory.require_around(pointer, "test");
  }
  /// The next access of the CPU to memory at a host node faults.
  void take_access_away(void* pointer) {
    { const ReadOnly read_only = runtime().read_only(pointer); }
    ASSERT_EQ(rig.machine().access(address_of(pointer), host(0)), Access::none);
  }
  /// The access is a segmentation fault whose line has all of these words.
  void expect_refused(const std::function<void()>& body, const std::vector<std::string>& words) {
    std::string text;
    EXPECT_TRUE(is_segmentation_fault(body, &text));
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
  }

  RuntimeRig rig{"test-2", patient()};
};

TEST_F(RefusedFault, OfPinnedMemoryInHbm) {
  std::uint64_t* words = alloc(gpu(0));
  {
    const Pin pin = runtime().pin(words);
    expect_refused([&] { load(words); }, {"load from", "\"array\"", "is pinned"});
    expect_refused([&] { store(words, 1); }, {"store to"});
  }
  store(words, 1);
  EXPECT_EQ(load(words), 1u);
}

TEST_F(RefusedFault, NotOfPinnedMemoryAtAHostNode) {
  std::uint64_t* words = alloc(host(0));
  const Pin pin = runtime().pin(words);
  store(words, 2);
  EXPECT_EQ(load(words), 2u);
}

TEST_F(RefusedFault, OfStoresToReadOnlyMemory) {
  std::uint64_t* words = alloc(host(0));
  store(words, 3);
  {
    const ReadOnly read_only = runtime().read_only(words);
    EXPECT_EQ(load(words), 3u);
    expect_refused([&] { store(words, 4); }, {"store to", "read-only"});
    EXPECT_EQ(load(words), 3u);
  }
  store(words, 5);
  EXPECT_EQ(load(words), 5u);
}

TEST_F(RefusedFault, OfFreedMemory) {
  for (const Place at : {gpu(0), host(0)}) {
    std::uint64_t* words = alloc(at);
    store(words, 1);
    runtime().free(words);
    std::string text;
    EXPECT_TRUE(is_segmentation_fault([&] { load(words); }, &text));
    EXPECT_EQ(text, "") << "it is no memory of the runtime's any more";
  }
  rig.check_invariants();
}

TEST_F(RefusedFault, OfMemoryThatIsBeingFreed) {
  std::uint64_t* words = alloc(host(0));
  take_access_away(words);
  const std::shared_ptr<Allocation> allocation = allocation_of(words);
  allocation->being_freed = true;
  expect_refused([&] { load(words); }, {"load from", "is being freed", "behind its free"});
  allocation->being_freed = false;
  load(words);
}

TEST_F(RefusedFault, OfMemoryThatHasLostAChunk) {
  std::uint64_t* words = alloc(host(0));
  take_access_away(words);
  allocation_of(words)->poison(1, true);
  expect_refused([&] { load(words); }, {"load from", "poisoned", "vma::read returns its bytes"});
}

TEST_F(RefusedFault, OfContentsThatWereDroppedAtAHostNode) {
  std::uint64_t* words = alloc(gpu(0));
  runtime().park("array");
  store(words, 1);
  ParkOptions options;
  options.contents = ParkContents::drop;
  runtime().park("array", options);
  expect_refused([&] { load(words); }, {"load from", "dropped", "vma::resume"});
  runtime().resume("array");
  load(words);
}

TEST_F(RefusedFault, OfMemoryThatTheCacheHandsOutAgain) {
  std::uint64_t* words = alloc(host(0));
  store(words, 1);
  runtime().free(words);
  std::uint64_t* again = rig.alloc(4 * chunk_bytes, host(0));  // Only through views.
  EXPECT_TRUE(is_segmentation_fault([&] { load(again); }));
}

TEST_F(RefusedFault, OfMemoryWithoutTheOption) {
  alloc(gpu(0));  // The handler is there.
  std::uint64_t* words = rig.alloc(chunk_bytes, gpu(0));
  std::string text;
  EXPECT_TRUE(is_segmentation_fault([&] { load(words); }, &text));
  EXPECT_EQ(text, "");
}

TEST_F(RefusedFault, OfAddressesOfOthers) {
  alloc(gpu(0));
  void* const page =
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  std::string text;
  EXPECT_TRUE(is_segmentation_fault([&] { load(static_cast<const std::uint64_t*>(page)); }, &text));
  EXPECT_EQ(text, "");
  munmap(page, 4096);
  EXPECT_TRUE(is_segmentation_fault([] { ::raise(SIGSEGV); }));
}

TEST_F(RefusedFault, InsideAHook) {
  std::uint64_t* words = alloc(gpu(0));
  std::string text;
  std::atomic<int> hooked{0};
  MoveHooks hooks;
  hooks.before = [&](const MoveEvent&) {
    if (is_segmentation_fault([&] { load(words); }, hooked == 0 ? &text : nullptr)) ++hooked;
  };
  const MoveHookRegistration hook = runtime().on_move(words, hooks);
  runtime().migrate(words, gpu(1));
  EXPECT_EQ(hooked, 4);
  EXPECT_NE(text.find("inside a call, callback or hook"), std::string::npos) << text;
}

TEST_F(RefusedFault, InsideAScopeOfCopies) {
  std::uint64_t* words = alloc(gpu(0));
  {
    const CopyScope scope;
    expect_refused([&] { load(words); }, {"inside a scope of copies"});
  }
  load(words);
}

TEST_F(RefusedFault, OfMemoryWithMoveHooks) {
  std::uint64_t* words = alloc(gpu(0));
  std::mutex held;
  MoveHooks hooks;
  hooks.before = [&](const MoveEvent&) { const std::lock_guard lock(held); };
  std::optional<MoveHookRegistration> hook = runtime().on_move(words, hooks);
  {
    const std::lock_guard lock(held);  // A hook on another thread would wait for ever.
    expect_refused([&] { load(words); }, {"it has move hooks", "hold a HostView"});
  }
  runtime().migrate(words, host(0));
  store(words, 1);
  runtime().migrate(words, gpu(0));
  hook.reset();
  EXPECT_EQ(load(words), 1u);
}

TEST_F(RefusedFault, OfWhatOthersForbid) {
  std::uint64_t* words = alloc(host(0));
  store(words, 1);
  ASSERT_EQ(mprotect(words, 4096, PROT_NONE), 0);
  expect_refused([&] { load(words); }, {"load from", "such as mprotect"});
  ASSERT_EQ(mprotect(words, 4096, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(load(words), 1u);
}

TEST_F(RefusedFault, NotOfMemoryThatIsFreedAndAllocatedAgain) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t* words = alloc(gpu(0));
    store(words, 1);
    runtime().free(words);
  }
}

TEST_F(RefusedFault, OfSignalsThatNoGrantCures) {
  std::uint64_t* words = alloc(gpu(0));
  const std::pair<int, int> signals[] = {
      {SIGBUS, BUS_ADRALN}, {SIGBUS, BUS_MCEERR_AR}, {SIGBUS, BUS_MCEERR_AO}, {SIGSEGV, 4}};
  for (const auto& [signal, code] : signals) {
    std::string text;
    EXPECT_TRUE(is_segmentation_fault(
        [&] {
          siginfo_t info{};
          info.si_signo = signal;
          info.si_code = code;
          info.si_addr = words;
          syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, &info);
        },
        &text))
        << code;
    EXPECT_EQ(text, "");
    EXPECT_EQ(runtime().where(words).front().at, gpu(0)) << code;
  }
}

/// Clang's sanitizer would first load what it keeps in front of each function.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
void jump_to(void* memory) {
  reinterpret_cast<void (*)()>(memory)();
}

TEST_F(RefusedFault, OfJumpsIntoTheMemory) {
  std::uint64_t* words = alloc(gpu(0));
  std::string text;
  EXPECT_TRUE(is_segmentation_fault([&] { jump_to(words); }, &text));
  EXPECT_EQ(text, "") << "no grant lets the CPU execute it";
  EXPECT_EQ(runtime().where(words).front().at, gpu(0));
}

TEST_F(RefusedFault, NotWhileAHostViewKeepsIt) {
  std::uint64_t* words = alloc(host(0));
  take_access_away(words);
  const HostView view = runtime().host_view(words, 2 * chunk_bytes);
  for (const std::uint64_t* at : {words, words + chunk_bytes / 8}) {
    EXPECT_EQ(rig.machine().access(address_of(at), host(0)), Access::read_write)
        << "not even system calls find it missing";
  }
}

TEST_F(RefusedFault, InAForkedChild) {
  if (under_thread_sanitizer) GTEST_SKIP() << "no fork under TSan";
  std::uint64_t* words = alloc(gpu(0));
  // A raw call runs no handlers of `fork`.
  const std::function<pid_t()> ways[] = {
      [] { return fork(); },
      [] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0)); }};
  for (const auto& way : ways) {
    const pid_t child = way();
    if (child == 0) {
      std::string text;
      const bool refused = is_segmentation_fault([&] { load(words); }, &text);
      const bool said = text.find("in a forked child") != std::string::npos;
      _exit(refused && said ? 0 : 1);
    }
    int status = -1;
    // A child that hangs has blocked all signals, and is ended for it.
    if (!comes_true([&] { return waitpid(child, &status, WNOHANG) == child; })) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  load(words);  // The parent goes on.
}

TEST_F(RefusedFault, AfterShutdown) {
  std::uint64_t* words = alloc(gpu(0));
  load(words);
  runtime().shutdown();
  EXPECT_TRUE(is_segmentation_fault([&] { load(words); }));
}

TEST_F(RefusedFault, WhereTheHostNodeIsFull) {
  std::uint64_t* words = alloc(gpu(0));
  runtime().trim(host(0));
  runtime().set_capacity(host(0), 1);
  expect_refused([&] { load(words); }, {"out_of_memory", "Free memory of the host node"});
  runtime().set_capacity(host(0), SIZE_MAX);
  load(words);
}

/// Where a fetch cannot suspend it.
TEST_F(RefusedFault, BehindWorkThatDoesNotEnd) {
  RuntimeOptions options = without_suspension();
  options.hold_limit = std::chrono::milliseconds(50);
  RuntimeRig impatient("test-2", options);
  AllocOptions faulting;
  faulting.cpu_access = CpuAccess::fault;
  auto* words =
      static_cast<std::uint64_t*>(impatient.runtime().alloc(chunk_bytes, gpu(0), faulting));
  const BoundStream stream =
      parts_of(impatient.runtime()).machinery->launcher.bind(impatient.stream(0));
  auto* word = static_cast<std::uint64_t*>(impatient.machine().allocate_pinned(stream.context, 8));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word), 1};
  impatient.machine().batch(stream, {&wait, 1});
  expect_refused([&] { load(words); }, {"busy", "hold_limit"});
  std::atomic_ref<std::uint64_t>(*word).store(1);
  impatient.runtime().synchronize(impatient.stream(0));
  load(words);
  impatient.machine().free_pinned(stream.context, word);
}

bool sleeps(long thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  return file >> number >> name >> state && state == "S";
}

TEST(FaultDeathTest, WhileTheProcessExitsTheThreadPauses) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  static std::atomic<long> thread{0};
  EXPECT_EXIT(
      {
        setenv("VMART_DRIVER", "sim:test-2", 1);
        std::atexit([] {  // Behind the runtime's, which is registered later.
          while (!sleeps(thread)) std::this_thread::yield();
        });
        AllocOptions options;
        options.cpu_access = CpuAccess::fault;
        const auto* words = static_cast<const std::uint64_t*>(vma::alloc(4096, gpu(0), options));
        std::thread([words] {
          while (!ProcessExit::begun()) std::this_thread::yield();
          thread = syscall(SYS_gettid);
          load(words);
        }).detach();
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

/// A runtime whose driver fails as told.
struct FailingRuntime {
  FailingRuntime() {
    auto machine = std::make_unique<SimDriver>(load_machine("test-2"));
    sim = std::move(machine);
    auto faults = std::make_unique<FaultDriver>(*sim);
    driver = faults.get();
    runtime =
        unique_runtime_of(std::make_unique<RuntimeParts>(std::move(faults), resolve_settings({})));
  }
  std::unique_ptr<SimDriver> sim;
  FaultDriver* driver = nullptr;
  std::unique_ptr<Runtime> runtime;
};

TEST(FailedFault, IsTriedAgainWhereTheDriverFailsOnce) {
  for (const Call call : {Call::grant, Call::unmap, Call::map}) {
    FailingRuntime failing;
    AllocOptions options;
    options.cpu_access = CpuAccess::fault;
    auto* words = static_cast<std::uint64_t*>(failing.runtime->alloc(4096, gpu(0), options));
    failing.driver->count_only({call});
    failing.driver->fail_calls({0});
    store(words, 3);
    EXPECT_EQ(load(words), 3u);
    EXPECT_EQ(failing.driver->fired(), 1);
    failing.driver->fail_calls({});
  }
}

TEST(FailedFault, IsASegmentationFaultWhereTheDriverKeepsFailing) {
  FailingRuntime failing;
  AllocOptions options;
  options.cpu_access = CpuAccess::fault;
  options.tag = "array";
  auto* words = static_cast<std::uint64_t*>(failing.runtime->alloc(4096, gpu(0), options));
  std::set<int> all;
  for (int i = 0; i < 100; ++i) all.insert(i);
  failing.driver->count_only({Call::unmap});
  failing.driver->fail_calls(all);
  std::string text;
  EXPECT_TRUE(is_segmentation_fault([&] { load(words); }, &text));
  EXPECT_NE(text.find("\"array\""), std::string::npos) << text;
  failing.driver->fail_calls({});
  store(words, 1);
  EXPECT_EQ(load(words), 1u);
}

/// Fails a grant of several chunks to the CPU with the first done, while it is told to.
class TearingDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  void grant(Address begin, std::uint64_t size_bytes,
             std::span<const Accessor> accessors) override {
    if (accessors.size() != 1 || accessors[0].who.kind != Place::Kind::host) {
      return inner().grant(begin, size_bytes, accessors);
    }
    if (accessors[0].access == Access::none) {
      revoked += size_bytes;
    } else if (tears && size_bytes > 4096) {
      inner().grant(begin, 4096, accessors);
      ++torn;
      throw Error(ErrorKind::driver_failure, "grant", "torn");
    }
    inner().grant(begin, size_bytes, accessors);
  }

  std::atomic<bool> tears{false};
  std::atomic<int> torn{0};
  std::atomic<std::uint64_t> revoked{0};

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

TEST(FailedFault, AGrantThatFailedHalfwayIsRevokedByTheNextMove) {
  SimDriver sim(load_machine("test-2"));
  auto tearing = std::make_unique<TearingDriver>(sim);
  TearingDriver& driver = *tearing;
  const std::unique_ptr<Runtime> runtime =
      unique_runtime_of(std::make_unique<RuntimeParts>(std::move(tearing), resolve_settings({})));
  AllocOptions options;
  options.chunk_bytes = 4096;
  options.cpu_access = CpuAccess::fault;
  auto* words = static_cast<std::uint64_t*>(runtime->alloc(4 * 4096, gpu(0), options));
  driver.tears = true;
  runtime->migrate(words, host(0));
  EXPECT_EQ(driver.torn, 1);
  store(words, 7);  // The first chunk is the CPU's: a move must take it away before it copies.
  driver.revoked = 0;
  runtime->migrate(words, gpu(0));
  EXPECT_EQ(driver.revoked, 4 * 4096u);
  driver.tears = false;
  EXPECT_EQ(load(words), 7u);
}

}  // namespace
}  // namespace vma
