#pragma once

#include "base/ids.hpp"
#include "driver/driver.hpp"

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

}  // namespace vma
