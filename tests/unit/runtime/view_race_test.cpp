// Goal: a HostView is safe next to `free` in another thread, and may outlive its allocation.

#include "runtime/runtime_parts.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace vma {
namespace {

TEST(ViewRace, MayOutliveTheRuntime) {
  std::optional<HostView> view, after_shutdown;
  {
    RuntimeRig rig;
    view = rig.runtime().host_view(rig.alloc(8, host(0)), 8);
    after_shutdown = rig.runtime().host_view(rig.alloc(8, host(0)), 8);
    rig.runtime().shutdown();
    after_shutdown.reset();
  }
  view.reset();
}

TEST(ViewRace, WithFreeEndsInOneOrTheOther) {
  RuntimeRig rig;
  for (int round = 0; round < 100; ++round) {
    std::uint64_t* words = rig.alloc(8, host(0));
    bool freed = false;
    std::thread viewer([&] {
      try {
        const HostView view = rig.runtime().host_view(words, 8);
        for (std::uint64_t i = 0; i < 100; ++i) words[0] = i;  // Stays mapped while the view lives.
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::unknown_pointer) << error.what();
      }
    });
    try {
      rig.runtime().free(words);
      rig.runtime().trim(host(0));
      freed = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::pinned) << error.what();
    }
    viewer.join();
    if (!freed) rig.runtime().free(words);
  }
  rig.check_invariants();
}

TEST(ViewRace, TheLastOfTwoViewsTakesTheAccessBack) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(8, host(0));
  std::optional<HostView> first(rig.runtime().host_view(words, 8));
  {
    const HostView second = rig.runtime().host_view(words, 8);
    first.reset();
    words[0] = 4;
  }
  EXPECT_EQ(rig.machine().access(address_of(words), host(0)), Access::none);
}

}  // namespace
}  // namespace vma
