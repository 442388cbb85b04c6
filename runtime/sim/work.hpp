#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "driver/driver.hpp"
#include "sim/race_detector.hpp"
#include "sim/sim_memory.hpp"

#include <vma/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace vma {

struct LoadedKernel {
  KernelHandle handle{};
  ContextHandle context{};
  Kernel kernel;
};

/// Does nothing. The record of an event, or a wait for one.
struct MarkerWork {};
struct CopyWork {
  Address target{}, source{};
  std::uint64_t size_bytes = 0;
};
struct FillWork {
  Address begin{};
  std::byte value{};
  std::uint64_t size_bytes = 0;
};
struct KernelWork {
  std::shared_ptr<const LoadedKernel> kernel;
  LaunchShape shape;
  KernelArguments arguments;
};
struct BatchWork {
  std::vector<WordOperation> operations;
};
struct WorkList;
struct GraphWork {
  std::shared_ptr<const WorkList> nodes;
};

/// One step of a stream, as enqueued: addresses are looked up when it runs.
using Work = std::variant<MarkerWork, CopyWork, FillWork, KernelWork, BatchWork, GraphWork>;

/// The nodes of a graph in the order of their capture, which is also the order of execution.
struct WorkList {
  std::vector<Work> works;
  /// Calls that are made when the last reference to the list is gone.
  std::vector<std::shared_ptr<void>> at_end;
};

/// Where work runs: a stream, which can wait for a word and is told about accesses.
class WorkPlace {
 public:
  virtual ~WorkPlace() = default;
  /// Blocks until `*word >= value`. Returns false if the work is dropped.
  virtual bool wait_word(const std::uint64_t* word, std::uint64_t value) = 0;
  /// The work has written a word that host threads may read.
  virtual void wrote_word() = 0;
  /// The work accesses the first bytes of the segment at this time.
  virtual void touches(const SimSegment& segment, std::uint64_t size_bytes, Touch touch) = 0;
  /// The work looks memory up and accesses it between the two. `begin_access` blocks while the work
  /// is suspended, and a suspension waits for `end_access`.
  virtual void begin_access() = 0;
  virtual void end_access() noexcept = 0;
  /// How long the work's context has been suspended so far, in all.
  virtual TimePoint suspended_time() const noexcept = 0;
};

/// One access, from the look-up to the last byte.
class WorkAccess {
 public:
  explicit WorkAccess(WorkPlace& place) : place_(place) { place_.begin_access(); }
  ~WorkAccess() { place_.end_access(); }
  WorkAccess(const WorkAccess&) = delete;
  WorkAccess& operator=(const WorkAccess&) = delete;

 private:
  WorkPlace& place_;
};

}  // namespace vma
