// Goal: what `vmart run` does about each call that drivers up to CUDA 13.5 have is what somebody
// has decided who has read what it does. Method: driver_calls.txt, which driver_headers_test.py
// compares with NVIDIA's headers.

#include "entry_points/known_calls.hpp"

#include <cuda.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace vma {
namespace {

std::map<std::string, std::string> listed() {
  std::map<std::string, std::string> kinds;
  std::ifstream list(VMART_DRIVER_CALLS);
  std::string kind;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      if (std::isdigit(static_cast<unsigned char>(word.front()))) {
        words >> kind;
        kind.pop_back();  // The colon.
        continue;
      }
      const std::size_t plus = word.find('+');
      const std::string symbol = word.substr(0, plus);
      kinds[symbol] = kind;
      if (plus != std::string::npos) kinds[symbol + "_" + word.substr(plus + 1)] = kind;
    }
  }
  return kinds;
}

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::hooked: return "hooked";
    case CallKind::harmless: return "harmless";
    case CallKind::unknown: return "unknown";
  }
  return "";
}

TEST(KnownCalls, AreAsListed) {
  const auto calls = listed();
  EXPECT_GT(calls.size(), 700u);
  for (const auto& [symbol, kind] : calls) {
    const CallKind found = kind_of_call(symbol);
    // An older cuda.h lacks the types of some hooks.
    if (CUDA_VERSION < 13000 && kind == "hooked" && found == CallKind::unknown) continue;
    EXPECT_EQ(kind, name_of(found)) << symbol;
  }
}

TEST(KnownCalls, OfTheFutureAreUnknownInFamiliesThatUseMemory) {
  for (const char* symbol :
       {"cuMemcpyNewAsync", "cuLaunchKernelEx_v3", "cuStreamNewOp_ptsz", "cuGraphAddNode_v4",
        "cuGraphLaunch_v2", "cuFabricFill", "cuTexObjectCreate_v2"}) {
    EXPECT_EQ(kind_of_call(symbol), CallKind::unknown) << symbol;
  }
  for (const char* symbol :
       {"cuDeviceGetNews", "cuEventRecord_v3", "cuMemGetNews_v2", "cuMemPrefetchAsync_v3",
        "cuStreamGetNews", "cuModuleLoad_v2", "curl_easy_init"}) {
    EXPECT_EQ(kind_of_call(symbol), CallKind::harmless) << symbol;
  }
}

TEST(KnownCalls, MayLookMemoryUpIfAVersionOfThemDoesOrNobodyKnowsThem) {
  for (const char* symbol :
       {"cuMemcpyHtoDAsync", "cuMemcpyAsync_v7_ptsz", "cuGraphAddMemcpyNode_v9",
        "cuGraphInstantiate_v7", "cuPointerGetAttribute", "cuMemShuffleAsync",
        "cuMulticastBindAddr", "cuMulticastBindAddr_v2", "cuLogicalEndpointBindAddr",
        "cuStreamEndCapture_ptsz", "cuStreamEndCaptureToCig"}) {
    EXPECT_TRUE(may_look_memory_up(symbol)) << symbol;
  }
  for (const char* symbol :
       {"cuMemAlloc", "cuMemAlloc_v9", "cuLaunchKernelEx_v2", "cuGraphLaunch",
        "cuStreamWaitEvent_v9", "cuMemGetInfo", "cuCtxCreate_v9", "cuMulticastBindMem"}) {
    EXPECT_FALSE(may_look_memory_up(symbol)) << symbol;
  }
}

}  // namespace
}  // namespace vma
