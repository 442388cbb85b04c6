#pragma once

#include <cstdint>

namespace vma {

class SteppedThreads;

struct SimOptions {
  /// Null: threads of the operating system. Otherwise every thread of the machine is a member of
  /// this executor, which must outlive the driver; calls come from members (inside `run`).
  SteppedThreads* stepped = nullptr;
  /// Determines the junk in fresh memory, on machines that fill it.
  std::uint64_t seed = 1;
  /// Maximum bytes of simulated memory at a time. Zero: VMART_SIM_BYTES, or 8 GiB if that is unset.
  std::uint64_t host_budget_bytes = 0;
  /// Records unordered accesses; see `races`.
  bool detect_races = false;
  /// See `Driver::green_contexts_are_apart`.
  bool green_contexts_are_apart = false;
};

}  // namespace vma
