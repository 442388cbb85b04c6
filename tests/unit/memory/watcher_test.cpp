// Goal: a watcher is told about each allocation twice: after it is made and before it is freed.
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

class Notes : public MemoryWatcher {
 public:
  explicit Notes(Memory& memory) : memory_(memory) {}
  void made(const std::shared_ptr<Allocation>& allocation) noexcept override {
    EXPECT_EQ(memory_.registry().hold(allocation->begin()), allocation) << "it can be found";
    made_.push_back(allocation->begin());
  }
  void freed(Address begin) noexcept override {
    EXPECT_TRUE(memory_.registry().find(begin)) << "its addresses cannot be another's yet";
    freed_.push_back(begin);
  }
  void changed(const Allocation& allocation) noexcept override {
    changed_.push_back(allocation.begin());
  }

  std::vector<Address> made_, freed_, changed_;

 private:
  Memory& memory_;
};

TEST(MemoryWatcher, HearsOfEachAllocationAtItsStartAndBeforeItsEnd) {
  MemoryRig rig;
  Notes notes(rig.memory());
  rig.free(rig.alloc(2, gpu(0)));
  rig.memory().watch(&notes);
  const auto cached = rig.alloc(2, gpu(0));
  const auto fresh = rig.alloc(4, gpu(0), 2);
  const auto spread = rig.memory().alloc(fresh->geometry(), std::vector{gpu(0), gpu(1)}, {});
  EXPECT_EQ(notes.made_, (std::vector{cached->begin(), fresh->begin(), spread->begin()}));
  EXPECT_TRUE(notes.freed_.empty());
  rig.memory().tell_changed(*fresh);
  EXPECT_EQ(notes.changed_, std::vector{fresh->begin()});
  rig.free(fresh);
  rig.memory().free_async(spread->begin(), rig.new_stream(0));
  EXPECT_EQ(notes.freed_, (std::vector{fresh->begin(), spread->begin()}));
  rig.memory().watch(nullptr);
  rig.free(cached);
  EXPECT_EQ(notes.freed_.size(), 2u);
}

TEST(MemoryWatcher, HearsNothingOfWhatWasNotHad) {
  MemoryRig rig;
  Notes notes(rig.memory());
  rig.memory().watch(&notes);
  rig.fail({Call::create}, {0, 1});
  expect_error(ErrorKind::out_of_memory, [&] { rig.alloc(4, gpu(0), 2); });
  rig.fail_nothing();
  const auto kept = rig.alloc(1, gpu(0));
  rig.fail({Call::synchronize_context}, {0});
  expect_error(ErrorKind::driver_failure, [&] { rig.free(kept); });
  rig.fail_nothing();
  EXPECT_EQ(notes.made_, std::vector{kept->begin()});
  EXPECT_TRUE(notes.freed_.empty()) << "it lives";
  rig.memory().watch(nullptr);
}

}  // namespace
}  // namespace vma
