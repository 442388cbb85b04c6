#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace vma {

/// A pool that keeps its memory, and some streams, as vmart's or a rival's.
class MemorySubject {
 public:
  virtual ~MemorySubject() = default;
  virtual void* allocate(std::uint64_t bytes, int stream) = 0;
  virtual void free(void* block, int stream) = 0;
  /// High marks since the subject was made: of memory that the pool took, and of its blocks with
  /// what rounding added.
  virtual std::uint64_t held_peak_bytes() = 0;
  virtual std::uint64_t used_peak_bytes() = 0;
};

/// Registers the benchmark "NAME/TRACE" for each trace in the folder VMART_BENCH_ALLOCATIONS, or of
/// those of this folder: what a pool holds beyond the bytes that are asked for, at their peaks.
void register_memory_cases(const std::string& name,
                           const std::function<std::unique_ptr<MemorySubject>(int streams)>& make);

}  // namespace vma
