#pragma once

#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include "runtime/runtime_parts.hpp"

#include <vma/pool.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace vma {

/// A runtime with pools, and streams that a test stops and lets go on. At the end all streams go
/// on, and the books of pools and memory are checked.
class PoolRig : public RuntimeRig {
 public:
  explicit PoolRig(const std::string& machine = "test-2", RuntimeOptions options = {});
  ~PoolRig();

  /// A stream of `make_stream`; the rig destroys it, unless `end` did.
  Stream new_stream(int gpu = 0);
  void end(Stream stream);
  /// A stream that the runtime did not make, of which it does not know when it ends.
  BoundStream foreign_stream();
  static Stream as_stream(BoundStream stream);

  /// Makes the stream stand until `let_go`.
  void stop(Stream stream);
  void let_go(Stream stream);
  /// Waits for the stream without telling the runtime.
  void finish(Stream stream);

  Pools& pools() { return parts_of(runtime()).machinery->pools; }
  Driver& driver() { return *parts_of(runtime()).driver; }
  void check();

 private:
  struct Stop {
    BoundStream stream;
    std::uint64_t* word;
  };
  std::vector<Stream> made_;
  std::vector<BoundStream> foreign_;
  std::vector<Stop> stops_;
};

}  // namespace vma
