#pragma once

#include <chrono>

namespace vma {

/// Whether this process is a child started for one test.
bool inside_child();

/// Runs the current test again in a new process: a program must not fork once it has used the
/// driver, and some outcomes end or block a process. Kills the child when `limit` has passed. The
/// current test fails unless the child's run passes.
void run_current_test_in_child(std::chrono::seconds limit);

}  // namespace vma
