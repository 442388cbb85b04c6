// Goal: the table of entry points names each call once, and a machine without a driver is told so.
// What the calls do is for the contract suite, where GPUs are.

#include "driver/cuda_api.hpp"
#include "driver/cuda_driver.hpp"
#include "driver/cuda_parameters.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <cstdint>
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

/// A driver that knows a function of so many parameters, the last of them as the test has it.
CudaApi api_with_parameters(decltype(&cuFuncGetParamInfo) answer) {
  CudaApi api;
  api.cuFuncGetParamInfo.function = answer;
  return api;
}

TEST(CudaParameters, AreAskedForUntilThereAreNoMore) {
  const CudaApi api = api_with_parameters(
      [](CUfunction function, std::size_t i, std::size_t* offset, std::size_t* size) {
        EXPECT_EQ(function, reinterpret_cast<CUfunction>(0x5000));
        if (i > 2) return CUDA_ERROR_INVALID_VALUE;
        *offset = 8 * i;
        *size = i == 0 ? 4 : 8 * i;
        return CUDA_SUCCESS;
      });
  const auto parameters = cuda_parameters(api, reinterpret_cast<const void*>(0x5000));
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[0].offset_bytes, 0u);
  EXPECT_EQ(parameters[0].size_bytes, 4u);
  EXPECT_EQ(parameters[2].offset_bytes, 16u);
  EXPECT_EQ(parameters[2].size_bytes, 16u);
}

TEST(CudaParameters, OfADriverThatFailsOrTalksNonsenseAreAnError) {
  const auto kind = [](const CudaApi& api) {
    try {
      cuda_parameters(api, reinterpret_cast<const void*>(0x5000));
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cuFuncGetParamInfo"), std::string::npos);
      return error.kind();
    }
    ADD_FAILURE() << "no error";
    return ErrorKind::busy;
  };
  EXPECT_EQ(kind(CudaApi{}), ErrorKind::unsupported) << "the driver has no such call";
  EXPECT_EQ(kind(api_with_parameters(
                [](CUfunction, std::size_t i, std::size_t* offset, std::size_t* size) {
                  *offset = 0, *size = 8;
                  return i == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
                })),
            ErrorKind::invalid_argument);
  using Answer = decltype(&cuFuncGetParamInfo);
  for (const Answer nonsense : {
           Answer([](CUfunction, std::size_t, std::size_t* offset, std::size_t* size) {
             *offset = 0, *size = SIZE_MAX;  // More than a launch takes.
             return CUDA_SUCCESS;
           }),
           Answer([](CUfunction, std::size_t, std::size_t* offset, std::size_t* size) {
             *offset = SIZE_MAX - 7, *size = 16;
             return CUDA_SUCCESS;
           }),
           Answer([](CUfunction, std::size_t, std::size_t* offset, std::size_t* size) {
             *offset = 0, *size = 8;  // Again and again, on top of each other.
             return CUDA_SUCCESS;
           }),
           Answer([](CUfunction, std::size_t i, std::size_t* offset, std::size_t* size) {
             *offset = i, *size = 0;
             return CUDA_SUCCESS;
           }),
       }) {
    EXPECT_EQ(kind(api_with_parameters(nonsense)), ErrorKind::driver_failure);
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
