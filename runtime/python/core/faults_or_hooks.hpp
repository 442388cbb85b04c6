#pragma once

#include <memory>

namespace vma {

/// Memory that the CPU faults in, and hooks in Python, exclude each other: a thread that touches
/// such memory waits for its move with the GIL held, moves may have to wait for each other, and one
/// that calls a hook waits for the GIL.
class FaultsOrHooks {
 public:
  enum class Kind { faults, hooks };
  /// One such memory or hook, as long as it exists. Throws: Error{unsupported} while one of the
  /// other kind exists.
  static std::shared_ptr<void> claim(Kind kind, const char* call);
};

}  // namespace vma
