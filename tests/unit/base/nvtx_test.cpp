// Goal: ranges reach NVTX where it is there, in a domain of ours, and cost nothing where it is not.
// Method: a library of the test in its place.
#include "base/nvtx.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <string>

namespace vma {
namespace {

TEST(Nvtx, PushesAndPopsRangesInADomain) {
  const Nvtx nvtx(VMART_FAKE_NVTX);
  ASSERT_TRUE(nvtx.loaded());
  {
    const NvtxRange outer([] { return std::string("outer"); }, nvtx);
    const NvtxRange inner([] { return std::string("inner"); }, nvtx);
  }
  void* library = dlopen(VMART_FAKE_NVTX, RTLD_NOW);
  const auto calls = reinterpret_cast<const char* (*)()>(dlsym(library, "fake_nvtx_calls"));
  ASSERT_NE(calls, nullptr);
  EXPECT_STREQ(calls(), "domain vmart;push outer;push inner;pop;pop;");
}

TEST(Nvtx, IsSilentWithoutTheLibrary) {
  testing::internal::CaptureStderr();
  for (const char* library : {static_cast<const char*>(nullptr), "libno-such-nvtx.so.1",
                              "libc.so.6"}) {  // The last one is there and lacks the calls.
    const Nvtx nvtx(library);
    EXPECT_FALSE(nvtx.loaded());
    bool named = false;
    {
      const NvtxRange range([&] { return named = true, std::string("never"); }, nvtx);
    }
    EXPECT_FALSE(named) << "names are made where somebody listens only";
    nvtx.push("nothing");
    nvtx.pop();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace vma
