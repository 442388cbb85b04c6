#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vma::interpose {

/// The frames of CPython 3.10 or newer that the calling thread is in, as "train.py:12 forward",
/// innermost first. None if the process has no such interpreter, if the thread does not hold its
/// lock, as in a call that has released it, or while an exception is being handled in C. Runs no
/// code of the program, and takes no lock.
std::vector<std::string> python_frames(std::size_t most);

}  // namespace vma::interpose
