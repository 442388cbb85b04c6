#pragma once

namespace vma {

/// What is broken on purpose, for a test to find. `BugDriver` says how.
enum class TwinBug { none, no_gate, old_digest, no_settling };

}  // namespace vma
