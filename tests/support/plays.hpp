#pragma once

#include "support/stepped_executor.hpp"

#include <functional>

namespace vma {

/// Runs the body of a play: with null for a machine on threads of the system, else in a stepped
/// one, with its executor. Returns the hash of the interleaving; 0 with threads.
std::uint64_t run_play(bool threaded, const SteppedOptions& options,
                       const std::function<void(SteppedExecutor*)>& body);

/// Lets time pass in which other threads go on.
void nap(Clock& clock, TimePoint duration);

}  // namespace vma
