#pragma once

namespace vma {

/// What is broken on purpose, for a test to find; see `BugDriver`.
enum class TwinBug { none, no_gate, old_digest, no_settling };

}  // namespace vma
