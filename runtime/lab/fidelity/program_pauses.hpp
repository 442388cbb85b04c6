#pragma once

#include "lab/fidelity/recorded_run.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/trace/trace_sink.hpp"

#include <cstddef>
#include <vector>

namespace vma {

/// How long each GPU of a program is busy with other things than the accesses that it records, such
/// as computing or waiting for its next launch. Found in one recorded run, it turns another one of
/// the same program into a closed loop: what a GPU does next follows the end of what it did before,
/// and the same pause.
///
/// The pause before an access is the time between the end of the previous one on its GPU and the
/// launch of this one, less the stalls in it. The end follows from the machine's costs, the places
/// of the bytes and the launch gap: accesses that were launched ahead have no pause, and what the
/// costs get wrong counts as pause. So the run should have its memory where access is fast, and
/// move nothing. An access that was launched when all before it may have ended, in half of what the
/// costs say, follows a wait. Not thread-safe.
class ProgramPauses {
 public:
  /// What a GPU does before an access.
  struct Before {
    Time pause{0};
    bool waits = false;  ///< For all accesses before it.
  };

  ProgramPauses(const RecordedRun& run, const ReplayMachine& machine);

  /// Of all GPUs.
  Time total() const;
  /// Writes the program of `run` as tasks to an empty trace. Each task has the accesses that a GPU
  /// launched without a pause or a wait, and follows a task that computes for the length of the
  /// pause before it. Allocations and frees follow the task before them, of the GPU that uses the
  /// object first or last. Throws: Error{invalid_argument} if a GPU made more than 5 % more or
  /// fewer accesses, or the program moved memory itself after its first access.
  void write_loop(const RecordedRun& run, KeptTrace& to) const;

 private:
  /// Of each GPU. Throws: as above.
  std::vector<std::size_t> accesses_of(const RecordedRun& run) const;

  std::vector<std::vector<Before>> before_;  // For each access of each GPU, in order.
};

}  // namespace vma
