#pragma once

#include "gpu/gpu_test.hpp"
#include "gpu/pools/stream_allocator.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace vma {

/// What a pool of CUDA takes at least, and what its limit is rounded to.
constexpr std::size_t segment_bytes = 32 << 20;
constexpr std::uint64_t few_words = 1024;
constexpr std::size_t few_bytes = few_words * sizeof(std::uint64_t);

inline void expect_words(StreamAllocator& on, Stream stream, void* words, std::uint64_t seed) {
  EXPECT_EQ(on.wrong(stream, words, few_words, seed), 0u);
}

struct VmartOnSimulation {
  static constexpr const char* name = "vmart_sim";
  static std::string unavailable() { return why_not_chosen<SimulatedGpus>(); }
  static std::unique_ptr<StreamAllocator> open() { return vmart_allocator(SimulatedGpus::open()); }
};

struct VmartOnGpus {
  static constexpr const char* name = "vmart_cuda";
  static std::string unavailable() { return why_left_out<CudaMachine>(); }
  static std::unique_ptr<StreamAllocator> open() { return vmart_allocator(CudaMachine::open()); }
};

struct CudasOwn {
  static constexpr const char* name = "cuda";
  static std::string unavailable() {
    const std::string why = why_left_out<CudaMachine>();
    return why.empty() ? why_no_cuda_pools() : why;
  }
  static std::unique_ptr<StreamAllocator> open() { return cuda_allocator(CudaMachine::open()); }
};

/// A test of an allocator in stream order, opened anew for each.
template <typename Subject>
class PoolTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = Subject::unavailable();
    if (!why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
    opened_ = Subject::open();
  }
  StreamAllocator& on() { return *opened_; }

 private:
  std::unique_ptr<StreamAllocator> opened_;
};

struct PoolSubjectNames {
  template <typename Subject>
  static std::string GetName(int) {
    return Subject::name;
  }
};
using PoolSubjects = testing::Types<VmartOnSimulation, VmartOnGpus, CudasOwn>;

}  // namespace vma
