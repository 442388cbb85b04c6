#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// A kernel that counts in every word of some memory until it is told to end, on a stream of its
/// own that no runtime was told of.
class CountingKernel {
 public:
  CountingKernel(Driver& driver, ContextHandle context, std::span<std::uint64_t> words);
  ~CountingKernel();
  CountingKernel(const CountingKernel&) = delete;
  CountingKernel& operator=(const CountingKernel&) = delete;

  /// Whether it counts on within 20 s.
  bool goes_on() const;
  /// How often it has counted so far.
  std::uint64_t beats() const;
  /// The same, once it has ended. Blocks: until then.
  std::uint64_t end();

 private:
  Driver& driver_;
  const ContextHandle context_;
  const BoundStream stream_;
  std::uint64_t* const told_;  // To end, and how often it has counted.
  const KernelHandle kernel_;
};

}  // namespace vma
