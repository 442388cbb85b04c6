#pragma once

#include "driver/driver.hpp"
#include "sim/work.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace vma {

class SimStream;

/// A capture in progress, shared by the participating streams. Guarded by the lock of Progress.
///
/// The nodes are in the order of their capture, which is one of the orders that the dependencies
/// allow.
struct SimCapture {
  SimStream* origin = nullptr;
  CaptureMode mode = CaptureMode::global;
  bool invalid = false;
  std::uint64_t id = 0;
  WorkList nodes;
  /// Streams that joined through an event and whose latest work no other stream has waited for, and
  /// how much of that there is.
  std::map<SimStream*, int> unjoined;
};

}  // namespace vma
