#pragma once

#include "support/failing_memory.hpp"

#include <atomic>
#include <cstdint>

namespace vma {

/// One allocation in `fails_one_in` fails, by a number that all threads share; 0: none.
inline std::atomic<std::uint64_t> fails_one_in{0}, failing_state{1}, failures{0};

/// Whether this is a thread of the library, or of a test that calls it. Those of the simulated
/// machine are spared.
inline thread_local bool under_test = false;

/// For `allocation_fails`.
inline bool fails() {
  const std::uint64_t one = fails_one_in;
  if (one == 0 || !under_test) return false;
  std::uint64_t next = failing_state.fetch_add(0x9E37'79B9'7F4A'7C15);
  next = (next ^ next >> 30) * 0xBF58'476D'1CE4'E5B9;
  next = (next ^ next >> 27) * 0x94D0'49BB'1331'11EB;
  if ((next ^ next >> 31) % one != 0) return false;
  ++failures;
  return true;
}

}  // namespace vma
