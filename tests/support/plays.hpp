#pragma once

#include "support/stepped_executor.hpp"

#include <functional>

namespace vma {

/// Runs the body of a play: with null for operating system threads, otherwise stepped, with the
/// executor. Returns the hash of the interleaving; 0 with threads.
std::uint64_t run_play(bool threaded, const SteppedOptions& options,
                       const std::function<void(SteppedExecutor*)>& body);

/// Lets time pass while other threads run.
void nap(Clock& clock, TimePoint duration);

}  // namespace vma
