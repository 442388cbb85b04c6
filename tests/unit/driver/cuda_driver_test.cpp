// Goal: the table of entry points names each call once, and a machine without a driver gets a clear
// error. The contract suite tests what the calls do, on machines with GPUs.

#include "driver/cuda_api.hpp"
#include "driver/cuda_driver.hpp"

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

/// A driver whose parameter query is `answer`.
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
  const KernelParameters found = cuda_parameters(api, reinterpret_cast<const void*>(0x5000));
  const std::vector<ParameterInfo>& parameters = found.list;
  EXPECT_FALSE(found.of_library);
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[0].offset_bytes, 0u);
  EXPECT_EQ(parameters[0].size_bytes, 4u);
  EXPECT_EQ(parameters[2].offset_bytes, 16u);
  EXPECT_EQ(parameters[2].size_bytes, 16u);
}

/// A driver for which 0x5000 is a CUfunction and 0x6000 a CUkernel, each with a pointer and an int;
/// 0x7000 and 0x8000 are the same without parameters. Like driver 580, it rejects a handle of the
/// other kind as an invalid handle.
template <typename Handle>
CUresult of_two_kinds(Handle handle, std::uintptr_t of_kind, std::size_t i, std::size_t* offset,
                      std::size_t* size) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number != of_kind && number != of_kind + 0x2000) return CUDA_ERROR_INVALID_HANDLE;
  if (number != of_kind || i > 1) return CUDA_ERROR_INVALID_VALUE;
  *offset = 8 * i;
  *size = i == 0 ? 8 : 4;
  return CUDA_SUCCESS;
}

CudaApi api_of_two_kinds() {
  CudaApi api;
  api.cuFuncGetParamInfo.function = [](CUfunction function, std::size_t i, std::size_t* offset,
                                       std::size_t* size) {
    return of_two_kinds(function, 0x5000, i, offset, size);
  };
  api.cuKernelGetParamInfo.function = [](CUkernel kernel, std::size_t i, std::size_t* offset,
                                         std::size_t* size) {
    return of_two_kinds(kernel, 0x6000, i, offset, size);
  };
  return api;
}

const void* handle_number(std::uintptr_t number) {
  return reinterpret_cast<const void*>(number);
}

/// cudart launches CUkernels through the same calls as CUfunctions.
TEST(CudaParameters, AreFoundForEitherKindOfHandle) {
  const CudaApi api = api_of_two_kinds();
  for (const std::uintptr_t number : {0x5000, 0x6000}) {
    SCOPED_TRACE(number);
    const KernelParameters found = cuda_parameters(api, handle_number(number));
    EXPECT_EQ(found.of_library, number == 0x6000);
    EXPECT_EQ(found.list, (std::vector<ParameterInfo>{{0, 8}, {8, 4}}));
    const KernelParameters none = cuda_parameters(api, handle_number(number + 0x2000));
    EXPECT_EQ(none.of_library, number == 0x6000);
    EXPECT_TRUE(none.list.empty());
  }
}

/// If the query for functions knows the handle, the one for kernels is not called.
TEST(CudaParameters, OfAFunctionAskNoKernel) {
  CudaApi api = api_of_two_kinds();
  api.cuKernelGetParamInfo.function = [](CUkernel, std::size_t, std::size_t*, std::size_t*) {
    ADD_FAILURE() << "asked";
    return CUDA_ERROR_INVALID_HANDLE;
  };
  EXPECT_EQ(cuda_parameters(api, handle_number(0x5000)).list.size(), 2u);
  EXPECT_EQ(cuda_parameters(api, handle_number(0x7000)).list.size(), 0u);
}

TEST(CudaParameters, AreConfirmedByTheLast) {
  const CudaApi api = api_of_two_kinds();
  const auto has = [&](std::uintptr_t number, const KernelParameters& parameters) {
    return cuda_has_parameters(api, handle_number(number), parameters);
  };
  for (const bool library : {false, true}) {
    const std::uintptr_t number = library ? 0x6000 : 0x5000;
    EXPECT_TRUE(has(number, {{{0, 8}, {8, 4}}, library}));
    EXPECT_FALSE(has(number, {{{0, 8}, {8, 8}}, library})) << "another last one";
    EXPECT_FALSE(has(number, {{{0, 8}, {16, 4}}, library})) << "at another place";
    EXPECT_TRUE(has(number, {{{0, 8}}, library})) << "whether one follows is not asked";
    EXPECT_FALSE(has(number, {{{0, 8}, {8, 4}, {16, 4}}, library})) << "one less";
    EXPECT_FALSE(has(number, {{}, library}));
    EXPECT_FALSE(has(number, {{{0, 8}, {8, 4}}, !library})) << "the other kind";
    EXPECT_TRUE(has(number + 0x2000, {{}, library}));
    EXPECT_FALSE(has(number + 0x2000, {{{0, 8}}, library}));
    EXPECT_FALSE(has(0x9000, {{{0, 8}, {8, 4}}, library})) << "unloaded";
  }
  EXPECT_FALSE(cuda_has_parameters(CudaApi{}, handle_number(0x5000), {})) << "no such call";
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
             *offset = 0, *size = SIZE_MAX;  // More bytes than a launch takes.
             return CUDA_SUCCESS;
           }),
           Answer([](CUfunction, std::size_t, std::size_t* offset, std::size_t* size) {
             *offset = SIZE_MAX - 7, *size = 16;
             return CUDA_SUCCESS;
           }),
           Answer([](CUfunction, std::size_t, std::size_t* offset, std::size_t* size) {
             *offset = 0, *size = 8;  // The same parameter again and again, all overlapping.
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
