// Goal: the parameters of a kernel are queried once, and those of an earlier kernel with the same
// handle are never used. Method: a driver whose kernels the test replaces.
#include "support/drivers/intercept_driver.hpp"
#include "driver/native_codes.hpp"
#include "runtime/known_kernels.hpp"
#include "support/test_machines.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace vma {
namespace {

using Parameters = std::vector<ParameterInfo>;

/// Confirms what the real driver confirms: the last parameter, or that there is none.
class Kernels final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  KernelParameters kernel_parameters(const void* function) override {
    ++asked;
    const auto found = loaded.find(function);
    if (found == loaded.end()) throw driver_error(native_invalid_handle, "cuFuncGetParamInfo");
    return {found->second, false};
  }
  bool has_parameters(const void* function, const KernelParameters& parameters) override {
    ++confirmed;
    const auto found = loaded.find(function);
    if (found == loaded.end()) return false;
    const Parameters& now = found->second;
    const std::size_t count = parameters.list.size();
    if (count == 0) return now.empty();
    return now.size() >= count && now[count - 1] == parameters.list.back();
  }

  std::map<const void*, Parameters> loaded;
  std::atomic<int> asked{0}, confirmed{0};

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

struct KnownKernelsTest : testing::Test {
  static const void* handle(std::uintptr_t number) {
    return reinterpret_cast<const void*>(0x10000 + 0x40 * number);
  }

  std::unique_ptr<Driver> machine = SimulatedMachine::open();
  Kernels driver{*machine};
  KnownKernels known{driver};
};

TEST_F(KnownKernelsTest, AreAskedForOnceAndThenConfirmed) {
  driver.loaded[handle(1)] = {{0, 8}, {8, 4}};
  driver.loaded[handle(2)] = {};
  for (int launch = 0; launch < 5; ++launch) {
    EXPECT_EQ(known.parameters_of(handle(1))->list, driver.loaded[handle(1)]);
    EXPECT_EQ(known.parameters_of(handle(2))->list, Parameters{});
  }
  EXPECT_EQ(driver.asked, 2);
  EXPECT_EQ(driver.confirmed, 8);
}

TEST_F(KnownKernelsTest, AreConfirmedToEachThreadForEachLaunch) {
  driver.loaded[handle(1)] = {{0, 8}, {8, 4}};
  const auto launch = [&] {
    for (int i = 0; i < 5; ++i) known.parameters_of(handle(1));
  };
  launch();
  EXPECT_EQ(driver.confirmed, 4);
  std::thread(launch).join();
  EXPECT_EQ(driver.confirmed, 9);
  EXPECT_EQ(driver.asked, 1);
}

TEST_F(KnownKernelsTest, AreConfirmedByNobodyWhereUnloadsAreTold) {
  driver.loaded[handle(1)] = {{0, 8}, {8, 4}};
  known.parameters_of(handle(1));
  KnownKernels::expect_told_unloads(true);
  for (int launch = 0; launch < 5; ++launch) known.parameters_of(handle(1));
  EXPECT_EQ(driver.confirmed, 0);
  KnownKernels::forget();
  driver.loaded[handle(1)] = {{0, 8}};
  EXPECT_EQ(known.parameters_of(handle(1))->list, driver.loaded[handle(1)]);
  std::thread([&] { known.parameters_of(handle(1)); }).join();
  KnownKernels::expect_told_unloads(false);
  EXPECT_EQ(driver.confirmed, 0);
  EXPECT_EQ(driver.asked, 3) << "also once unloads began to be told";
}

/// A thread must not use what it remembers of one runtime's kernels for another runtime.
TEST_F(KnownKernelsTest, AreThoseOfOneTable) {
  driver.loaded[handle(1)] = {{0, 8}};
  known.parameters_of(handle(1));
  Kernels other_driver{*machine};
  other_driver.loaded[handle(1)] = {{0, 4}};
  KnownKernels other{other_driver};
  EXPECT_EQ(other.parameters_of(handle(1))->list, other_driver.loaded[handle(1)]);
  EXPECT_EQ(known.parameters_of(handle(1))->list, driver.loaded[handle(1)]);
}

TEST_F(KnownKernelsTest, AreAskedForAgainWhereAnotherHasTheHandle) {
  driver.loaded[handle(1)] = {{0, 8}, {8, 4}};
  known.parameters_of(handle(1));
  for (const Parameters& other :
       {Parameters{{0, 8}, {8, 8}}, Parameters{{0, 8}}, Parameters{}, Parameters{{0, 4}, {8, 4}}}) {
    driver.loaded[handle(1)] = other;
    EXPECT_EQ(known.parameters_of(handle(1))->list, other);
  }
}

/// Even if the driver's confirmation does not tell them apart.
TEST_F(KnownKernelsTest, AreAskedForAgainOnceForgotten) {
  driver.loaded[handle(1)] = {{0, 8}, {8, 8}, {16, 4}};
  known.parameters_of(handle(1));
  driver.loaded[handle(1)] = {{0, 4}, {8, 8}, {16, 4}};
  known.forget();
  EXPECT_EQ(known.size(), 0u);
  EXPECT_EQ(known.parameters_of(handle(1))->list, driver.loaded[handle(1)]);
}

TEST_F(KnownKernelsTest, OfWhichTheDriverKnowsNothingAreNotKept) {
  EXPECT_THROW(known.parameters_of(handle(1)), Error);
  EXPECT_EQ(known.size(), 0u);
  driver.loaded[handle(1)] = {{0, 8}};
  known.parameters_of(handle(1));
  driver.loaded.clear();
  EXPECT_THROW(known.parameters_of(handle(1)), Error) << "unloaded";
}

TEST_F(KnownKernelsTest, AreBoundedInNumber) {
  const std::size_t kernels = 3 * KnownKernels::kernels_max;
  for (std::size_t number = 0; number < kernels; ++number) {
    driver.loaded[handle(number)] = {{0, 8}};
    known.parameters_of(handle(number));
  }
  EXPECT_LE(known.size(), KnownKernels::kernels_max);
  EXPECT_GT(known.size(), 0u);
}

TEST_F(KnownKernelsTest, AreRightBesideThreadsThatForget) {
  constexpr std::uintptr_t kernels = 32;
  for (std::uintptr_t number = 0; number < kernels; ++number) {
    driver.loaded[handle(number)] = {{8 * number, 8}};
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uintptr_t i = 0; i < 4000; ++i) {
        const std::uintptr_t number = i * 7 % kernels;
        const auto found = known.parameters_of(handle(number));
        if (found->list != Parameters{{8 * number, 8}}) ++wrong;
        if (thread == 0 && i % 50 == 0) known.forget();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace vma
