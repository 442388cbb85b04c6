// Goal: hooks are told about each move in order; a refusal is undone for the hooks before it; once
// `remove` has returned, the hooks no longer run, whichever thread called it.
#include "memory/hook_list.hpp"

#include "unit/memory/memory_rig.hpp"

#include "base/executor.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

using Told = std::vector<std::string>;

class HookListTest : public testing::Test {
 protected:
  /// Hooks that record their calls under a name; `before` throws if it should refuse.
  MoveHooks notes(const std::string& name, bool refuses = false) {
    MoveHooks hooks;
    hooks.before = [this, name, refuses](const MoveEvent&) {
      told_.push_back(name + " before");
      if (refuses) throw std::runtime_error(name + " refuses");
    };
    hooks.after = [this, name](const MoveEvent& event) {
      told_.push_back(fmt::format("{} after {}", name, event.moved ? "moved" : "stayed"));
    };
    return hooks;
  }
  MoveEvent moved() const {
    MoveEvent event;
    event.moved = true;
    return event;
  }

  HookList list_;
  Told told_;
};

TEST_F(HookListTest, TellsInTheOrderOfAdding) {
  EXPECT_TRUE(list_.empty());
  const std::uint64_t first = list_.add(notes("a"));
  list_.add(notes("b"));
  EXPECT_FALSE(list_.empty());
  list_.before({});
  EXPECT_EQ(list_.after(moved()), 0u);
  EXPECT_EQ(told_, (Told{"a before", "b before", "a after moved", "b after moved"}));
  list_.remove(first);
  told_.clear();
  list_.before({});
  EXPECT_EQ(told_, Told{"b before"});
  list_.remove(first);  // A second call does nothing.
  EXPECT_FALSE(list_.empty());
}

TEST_F(HookListTest, TellsThoseBeforeARefusalThatTheChunkHasStayed) {
  list_.add(notes("a"));
  list_.add(notes("b"));
  list_.add(notes("c", true));
  list_.add(notes("d"));
  try {
    list_.before(moved());
    ADD_FAILURE() << "nobody refused";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "c refuses");
  }
  EXPECT_EQ(told_, (Told{"a before", "b before", "c before", "a after stayed", "b after stayed"}));
}

TEST_F(HookListTest, CountsWhatAfterThrowsAndGoesOn) {
  MoveHooks throws;
  throws.after = [](const MoveEvent&) { throw std::runtime_error("a test, on purpose"); };
  list_.add(throws);
  throws.after = [](const MoveEvent&) { throw 7; };
  list_.add(throws);
  list_.add(notes("a"));
  EXPECT_EQ(list_.after(moved()), 2u);
  EXPECT_EQ(told_, Told{"a after moved"});
}

TEST_F(HookListTest, AllowsHooksThatAreNotThere) {
  list_.add({});
  list_.before({});
  EXPECT_EQ(list_.after(moved()), 0u);
}

TEST_F(HookListTest, LetsAHookRemoveItselfAndAddAnother) {
  std::uint64_t own = 0;
  MoveHooks hooks = notes("a");
  hooks.before = [&](const MoveEvent&) {
    list_.remove(own);  // Waiting would deadlock.
    list_.add(notes("b"));
  };
  own = list_.add(std::move(hooks));
  list_.before({});
  list_.after(moved());
  EXPECT_EQ(told_, (Told{"b before", "b after moved"}));
}

TEST_F(HookListTest, RemovingWaitsForAHookThatRuns) {
  std::atomic<bool> inside{false}, removed{false}, go_on{false}, released{false};
  struct Owner {
    std::atomic<bool>& released;
    ~Owner() { released = true; }
  };
  MoveHooks hooks;
  hooks.before = [&, owner = std::make_shared<Owner>(released)](const MoveEvent&) {
    inside = true;
    EXPECT_TRUE(comes_true([&] { return go_on.load(); }));
    EXPECT_FALSE(removed) << "it is still running";
  };
  const std::uint64_t id = list_.add(std::move(hooks));
  ThreadedExecutor executor;
  const auto migrator = executor.spawn("migrator", [&] { list_.before({}); });
  EXPECT_TRUE(comes_true([&] { return inside.load(); }));
  const auto remover = executor.spawn("remover", [&] {
    list_.remove(id);
    removed = true;
    EXPECT_TRUE(released) << "and what it owned went with it";
  });
  EXPECT_TRUE(comes_true([&] { return list_.empty(); }));
  go_on = true;
  migrator->join();
  remover->join();
  EXPECT_TRUE(removed);
}

TEST_F(HookListTest, HoldsNoLockWhileAHookRuns) {
  MoveHooks hooks;
  hooks.before = [&](const MoveEvent&) {
    ThreadedExecutor executor;
    executor.spawn("other", [&] { list_.remove(list_.add({})); })->join();
  };
  list_.add(std::move(hooks));
  list_.before({});
  EXPECT_FALSE(list_.empty());
}

TEST_F(HookListTest, IsDisabledBesideAHookThatRuns) {
  std::atomic<bool> inside{false}, go_on{false};
  MoveHooks hooks;
  hooks.before = [&](const MoveEvent&) {
    inside = true;
    EXPECT_TRUE(comes_true([&] { return go_on.load(); }));
  };
  const std::uint64_t id = list_.add(std::move(hooks));
  ThreadedExecutor executor;
  const auto migrator = executor.spawn("migrator", [&] { list_.before({}); });
  EXPECT_TRUE(comes_true([&] { return inside.load(); }));
  list_.disable(id);
  EXPECT_TRUE(list_.empty());
  go_on = true;
  migrator->join();
  list_.disable(id);
}

}  // namespace
}  // namespace vma
