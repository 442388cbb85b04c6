#pragma once

#include "model/books.hpp"
#include "model/floor.hpp"
#include "model/play.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"
#include "support/stepped_executor.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {

/// Runtime and model differ: ends a play.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What all users of a play share: the machine, the runtime, the books, the floor.
class World {
 public:
  /// `stepped` is null for operating system threads.
  World(const ModelPlan& plan, SteppedExecutor* stepped);

  Runtime& runtime() { return *runtime_; }
  Memory& memory() { return parts_of(*runtime_).machinery->memory; }
  const Topology& topology() { return parts_of(*runtime_).machinery->topology; }
  Executor& executor() { return machine_.executor(); }
  Books& books() { return books_; }
  Floor& floor() { return floor_; }
  const ModelPlan& plan() const { return plan_; }
  const Draw& draw() const { return draw_; }

  /// Each user registers its streams, for `come_to_rest`, and counts its allocations.
  void use_stream(Stream stream);
  std::atomic<int> allocations{0};

  /// Whether a request for so many more bytes may, or must, be refused now. With `cache_counts`,
  /// cached bytes there cannot be given up for it. Requires: alone, or the only user.
  bool may_refuse(Place at, std::uint64_t size_bytes, bool cache_counts = false);

  /// Waits until the runtime's own work has ended and everything freed has come back. Throws:
  /// Mismatch if that does not happen. Requires: alone.
  void come_to_rest();
  /// Compares the runtime's books with the model's and checks its invariants. Requires: alone.
  void check();
  /// Ends the runtime. Throws: Mismatch if something is left behind.
  void end();

  void fail(const std::string& mismatch);
  bool failed() const { return failed_; }
  std::string mismatch() const;

 private:
  bool agrees();
  [[noreturn]] void explain_books(const char* what);
  void nap();

  const ModelPlan& plan_;
  SimDriver machine_;
  const Draw draw_;
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<const std::atomic<std::uint64_t>> leaked_;
  Books books_;
  Floor floor_;
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::vector<Stream> streams_ VMART_GUARDED_BY(mutex_);
  std::string mismatch_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
