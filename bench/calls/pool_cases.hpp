#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace vma {

/// A pool and some streams, as vmart's or a rival's.
class PoolSubject {
 public:
  virtual ~PoolSubject() = default;
  /// Called once by each thread.
  virtual void enter_thread() {}
  /// Allocates a block on a stream and frees it on another one, or the same, so many times.
  virtual void pairs(int allocates, int frees, std::uint64_t bytes, int times) = 0;
};

/// Registers the benchmarks "NAME/same_stream/threads1/BYTES" and so on: a stream for each of 1 and
/// 8 threads; one stream that gets what is freed on another. `make` makes a subject with so many
/// streams.
void register_pool_cases(const std::string& name,
                         const std::function<std::unique_ptr<PoolSubject>(int streams)>& make);

}  // namespace vma
