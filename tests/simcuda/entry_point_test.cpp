// Goal: a program finds each call as in NVIDIA's library: linked, by dlsym, and by both versions of
// cuGetProcAddress.

#include "simcuda/simcuda_test.hpp"

#include "driver/cuda_api.hpp"
#include "driver/cuda_driver.hpp"
#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"

#include <vma/error.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace vma {
namespace {

constexpr auto legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr auto per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

constexpr int newest = std::max(CUDA_VERSION, 13050);

void* found(const char* name, int version, cuuint64_t flags = legacy) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(cuGetProcAddress(name, &function, version, flags, &status), CUDA_SUCCESS) << name;
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS) << name << " " << version;
  return function;
}

void* symbol(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(library, nullptr) << "not loaded by that name";
  return library == nullptr ? nullptr : dlsym(library, name);
}

CUdriverProcAddressQueryResult status_of(const char* name, int version) {
  void* function = &function;
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(cuGetProcAddress(name, &function, version, legacy, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr) << name;
  return status;
}

TEST(SimcudaEntryPoints, AreTheSymbolsOfTheAskedVersion) {
  EXPECT_EQ(found("cuMemAlloc", 3020), symbol("cuMemAlloc_v2"));
  EXPECT_EQ(found("cuMemAlloc", 12000), symbol("cuMemAlloc_v2"));
  EXPECT_EQ(found("cuCtxCreate", 3020), symbol("cuCtxCreate_v2"));
  EXPECT_EQ(found("cuCtxCreate", 11040), symbol("cuCtxCreate_v3"));
  EXPECT_EQ(found("cuCtxCreate", 12050), symbol("cuCtxCreate_v4"));
  EXPECT_EQ(found("cuStreamDestroy", 2000), symbol("cuStreamDestroy"));
  EXPECT_EQ(found("cuGetProcAddress", 12000), symbol("cuGetProcAddress_v2"));
  EXPECT_NE(symbol("cuCtxDestroy"), nullptr);
  EXPECT_EQ(found("cuLaunchHostFunc", newest), symbol("cuLaunchHostFunc"));
  EXPECT_EQ(found("cuLaunchHostFunc_v2", newest), symbol("cuLaunchHostFunc_v2"));
}

TEST(SimcudaEntryPoints, OfPerThreadStreamsHaveTheirOwnSymbols) {
  EXPECT_EQ(found("cuMemcpyAsync", 7000, legacy), symbol("cuMemcpyAsync"));
  EXPECT_EQ(found("cuMemcpyAsync", 7000, per_thread), symbol("cuMemcpyAsync_ptsz"));
  EXPECT_EQ(found("cuMemcpyHtoD", 7000, per_thread), symbol("cuMemcpyHtoD_v2_ptds"));
  EXPECT_NE(symbol("cuMemcpyHtoD_v2_ptds"), symbol("cuMemcpyHtoD_v2"));
  EXPECT_EQ(found("cuMemAlloc", 7000, per_thread), symbol("cuMemAlloc_v2"));  // It has no stream.
}

TEST(SimcudaEntryPoints, MissingOnesAreReportedWithTheirReason) {
  EXPECT_EQ(status_of("cuNoSuchCall", 12000), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(status_of("cuMemAlloc_v2", 12000), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(status_of("cuMemCreate", 10010), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(status_of("cuLaunchHostFunc_v2", 13000), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuInit", &function, newest + 10, legacy, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

TEST(SimcudaEntryPoints, AreFoundByTheFirstVersionOfTheLookUp) {
  using First = CUresult (*)(const char*, void**, int, cuuint64_t);
  const auto look_up = reinterpret_cast<First>(symbol("cuGetProcAddress"));
  ASSERT_NE(look_up, nullptr);
  void* function = nullptr;
  EXPECT_EQ(look_up("cuMemFree", &function, 11030, legacy), CUDA_SUCCESS);
  EXPECT_EQ(function, symbol("cuMemFree_v2"));
  EXPECT_EQ(look_up("cuNoSuchCall", &function, 11030, legacy), CUDA_ERROR_NOT_FOUND);
}

TEST(SimcudaEntryPoints, AreAllThatTheRuntimeNeeds) {
  for (const std::string& name : cuda_call_names()) {
    EXPECT_NE(found(name.c_str(), CUDA_VERSION), nullptr) << name;
  }
}

TEST(SimcudaEntryPoints, ExportNothingElse) {
  EXPECT_EQ(symbol("_ZN3vma9SimDriverC1ENS_18MachineDescriptionERKNS_10SimOptionsE"), nullptr);
  EXPECT_EQ(symbol("_ZTIN3vma2v15ErrorE"), nullptr);
}

TEST(SimcudaEntryPoints, AreApartFromTheSimulatorOfTheProgram) {
  SimDriver own(load_machine("test-2"));
  CudaDriver other;  // On the library.
  EXPECT_FALSE(other.simulated());
  const ContextHandle ours = own.retain_primary(DeviceId{0});
  const ContextHandle theirs = other.retain_primary(DeviceId{0});
  EXPECT_EQ(own.granularity(gpu(0)), 4096u);
  EXPECT_EQ(other.granularity(gpu(0)), 2u << 20);
  const Address begin = other.allocate_plain(theirs, 4096);
  EXPECT_THROW(own.free_plain(ours, begin), Error) << "it knows memory of the library";
  other.free_plain(theirs, begin);
  own.release_primary(DeviceId{0});
  EXPECT_TRUE(own.leaks().empty());
  EXPECT_TRUE(other.context_active(DeviceId{0}));
  other.release_primary(DeviceId{0});
}

TEST(SimcudaEntryPoints, BeforeInitAreRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // In a process that has not called cuInit.
  const auto ask = [] {
    int count = 0;
    std::exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_SUCCESS &&
                      cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 2
                  ? 0
                  : 1);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
}

TEST(SimcudaEntryPoints, NameTheCodes) {
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_INVALID_HANDLE, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_INVALID_HANDLE");
  EXPECT_EQ(cuGetErrorString(static_cast<CUresult>(123456), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST(SimcudaEntryPoints, ThereAreNoPrivateTables) {
  const void* table = &table;
  const CUuuid id{};
  EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(table, nullptr);
}

}  // namespace
}  // namespace vma
