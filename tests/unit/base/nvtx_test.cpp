// Goal: ranges reach a tool loaded by NVTX, in our own domain. Method: the test brings its own
// tool. NVTX looks for a tool once per process, so this is a separate program.
#include "base/nvtx.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace vma {
namespace {

TEST(Nvtx, PushesAndPopsRangesInADomainOfATool) {
  ASSERT_EQ(setenv("NVTX_INJECTION64_PATH", VMART_NVTX_TOOL, 1), 0);
  ASSERT_EQ(setenv("VMART_NVTX", "1", 1), 0);
  ASSERT_TRUE(Nvtx::process().loaded());
  {
    const NvtxRange outer([] { return std::string("outer"); });
    const NvtxRange inner([] { return std::string("inner"); });
  }
  void* library = dlopen(VMART_NVTX_TOOL, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto calls = reinterpret_cast<const char* (*)()>(dlsym(library, "nvtx_tool_calls"));
  ASSERT_NE(calls, nullptr);
  EXPECT_STREQ(calls(), "domain vmart;push outer;push inner;pop;pop;");
}

}  // namespace
}  // namespace vma
