#pragma once

#include "driver/driver.hpp"

#include <vma/vma.hpp>
#include <vma/vmart.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// The process-wide runtime that the C calls use, on a simulated machine with two GPUs, the second
/// of which is small. A test fails if it leaves an allocation behind.
class AbiTest : public testing::Test {
 protected:
  static constexpr std::uint64_t chunk_bytes = 8192;
  static constexpr std::uint64_t second_gpu_bytes = 1 << 20;
  static constexpr std::int64_t long_ns = 20'000'000'000;

  AbiTest();
  ~AbiTest() override;

  Driver& driver();
  Stream stream(int gpu) const { return streams_.at(static_cast<std::size_t>(gpu)); }
  BoundStream bound(Stream stream);
  /// Allocates `chunks` chunks at the first GPU and sets word i to `seed` + i.
  std::uint64_t* filled(std::uint64_t chunks, std::uint64_t seed);
  std::uint64_t wrong(const std::uint64_t* words, std::uint64_t chunks, std::uint64_t seed);
  bool is_allocated(const void* pointer);

 private:
  std::vector<Stream> streams_;
  std::size_t allocations_before_ = 0;
};

vmart_place c_gpu(int ordinal);
vmart_place c_host(int node);
/// "gpu(0)", for example; the text of the error if there is no home.
std::string home_of(const void* pointer);

}  // namespace vma
