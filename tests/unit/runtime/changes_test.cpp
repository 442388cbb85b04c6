// Goal: a watcher is told when an allocation becomes movable or pinned, read-only or writable.
#include "runtime/runtime_parts.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

namespace vma {
namespace {

class Changes : public MemoryWatcher {
 public:
  void made(const std::shared_ptr<Allocation>&) noexcept override {}
  void freed(Address) noexcept override {}
  void changed(const Allocation& allocation) noexcept override {
    ++count;
    why_pinned = allocation.why_pinned();
    read_only = allocation.read_only();
  }
  int count = 0;
  std::string why_pinned;
  bool read_only = false;
};

TEST(Changes, AreToldWhenTheyHaveHappened) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(8192, host(0));
  Memory& memory = parts_of(rig.runtime()).machinery->memory;
  Changes changes;
  memory.watch(&changes);
  int told = 0;
  const auto expect = [&](const std::string& reason, bool read_only) {
    EXPECT_EQ(changes.count, ++told);
    EXPECT_EQ(changes.why_pinned, reason);
    EXPECT_EQ(changes.read_only, read_only);
  };
  {
    const Pin pin = rig.runtime().pin(words);
    expect("is pinned", false);
  }
  expect("", false);
  {
    const HostView view = rig.runtime().host_view(words, 8);
    expect("has a HostView", false);
  }
  expect("", false);
  {
    const ReadOnly scope = rig.runtime().read_only(words);
    expect("", true);
  }
  expect("", false);
  rig.runtime().note_export(words);
  expect("is exported, and no hook follows its moves; register one with vma::on_move", false);
  {
    const MoveHookRegistration hook =
        rig.runtime().on_move(words, {[](const MoveEvent&) {}, nullptr});
    expect("", false);
  }
  expect("is exported, and no hook follows its moves; register one with vma::on_move", false);
  memory.watch(nullptr);
  const Pin pin = rig.runtime().pin(words);
  EXPECT_EQ(changes.count, told);
}

}  // namespace
}  // namespace vma
