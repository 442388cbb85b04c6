// Goal: the table of entry points names each call once, and a machine without a driver is told so.
// What the calls do is for the contract suite, where GPUs are.

#include "driver/cuda_api.hpp"
#include "driver/cuda_driver.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace vma {
namespace {

TEST(CudaApi, NamesEachCallOnceByItsBaseName) {
  const std::vector<std::string> names = cuda_call_names();
  const std::set<std::string> once(names.begin(), names.end());
  EXPECT_EQ(once.size(), names.size());
  EXPECT_TRUE(once.contains("cuMemAlloc")) << "and not cuMemAlloc_v2";
  for (const std::string& name : names) EXPECT_EQ(name.find("_v"), std::string::npos) << name;
}

TEST(CudaApi, AMissingOptionalCallNamesTheDriverItNeeds) {
  const CudaApi api;
  try {
    api.cuCtxWaitEvent(nullptr, nullptr);
    ADD_FAILURE() << "called";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("cuCtxWaitEvent"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("12.5"), std::string::npos) << error.what();
  }
}

TEST(CudaApi, AFailedCallShowsItsArguments) {
  CudaApi api;
  api.cuMemUnmap.function = [](CUdeviceptr, std::size_t) { return CUDA_ERROR_INVALID_VALUE; };
  try {
    api.cuMemUnmap(0x7f0000200000, 2097152);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("cuMemUnmap"), std::string::npos) << text;
    EXPECT_NE(text.find("0x7f0000200000"), std::string::npos) << text;
    EXPECT_NE(text.find("2097152"), std::string::npos) << text;
  }
}

TEST(CudaDriver, SaysThatThereIsNoDriverAndHowToSimulate) {
  try {
    const CudaDriver driver;
    GTEST_SKIP() << "SKIPPED: this machine has a driver";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::no_driver);
    EXPECT_NE(std::string(error.what()).find("VMART_DRIVER"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace vma
