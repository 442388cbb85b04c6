#pragma once

#include "driver/driver.hpp"
#include "sim/work.hpp"

#include <set>
#include <vector>

namespace vma {

class SimStream;

/// A capture under way, shared by the streams that take part. Guarded by the lock of Progress.
///
/// The nodes are kept in the order of their capture: one of the orders that the dependencies of the
/// captured streams allow.
struct SimCapture {
  SimStream* origin = nullptr;
  CaptureMode mode = CaptureMode::global;
  bool invalid = false;
  WorkList nodes;
  /// Streams that joined by an event and whose last work nobody has waited for.
  std::set<SimStream*> unjoined;
};

}  // namespace vma
