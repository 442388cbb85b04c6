// Goal: without a profiler, a range does not build its name.
#include "base/nvtx.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace vma {
namespace {

TEST(NoNvtx, MakesNoNamesWithoutATool) {
  unsetenv("NVTX_INJECTION64_PATH");
  for (const bool wanted : {false, true}) {
    const Nvtx nvtx(wanted);
    EXPECT_FALSE(nvtx.loaded());
    bool named = false;
    {
      const NvtxRange range([&] { return named = true, std::string("never"); }, nvtx);
    }
    EXPECT_FALSE(named) << "names are made where somebody listens only";
    nvtx.push("nothing");
    nvtx.pop();
  }
}

}  // namespace
}  // namespace vma
