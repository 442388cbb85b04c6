#pragma once

#include <chrono>

namespace vma {

/// Whether this process is the child that a parent started for one test.
bool inside_child();

/// Runs the current test again in a process of its own: a program may not fork once the driver is
/// up, and some outcomes end or stop a process. The child is killed when `limit` has passed.
/// Fails the current test unless the child's passed.
void run_current_test_in_child(std::chrono::seconds limit);

}  // namespace vma
