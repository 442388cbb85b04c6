#pragma once

#include "bench/live/live_machine.hpp"
#include "bench/live/moved_range.hpp"
#include "bench/harness/samples.hpp"
#include "bench/live/writers.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace vma {

constexpr std::uint64_t chunk_bytes_most = 256 * mebibyte;

/// How a chunk is moved, as in the names of benchmarks: by the runtime's own copy kernels beside
/// the application, by copy engine while a gate stops the application's streams, or under a hold.
enum class MoveMode { live, stopped, held };
std::string mode_label(MoveMode mode);
MigrateOptions options_of(MoveMode mode);

/// Attached streams on two GPUs, or on the only one, that write to a few tiles of the range.
WriterSpec few_writes(const MovedRange& range, int streams, std::chrono::nanoseconds kernel);

/// A stream of the GPU that no gate stops, and that reads and writes its own memory at full speed:
/// `bytes`, at most 256 MiB.
WriterSpec sweeps(Place at, std::uint64_t bytes);

/// Adds how long work was stopped in all stops so far, from the runtime's counters, with an error
/// of up to about 5 %.
void add_stops(Sample& sample, const RuntimeStats& stats);

/// The share lost, 0 to 1, compared with the mean of the measurements before and after.
double share_lost(double before, double during, double after);

// The cases of `live_bench`, with one file each. Batches need one GPU, all others two. Throws:
// Unavailable if the machine has too few.
void register_stall_cases();
void register_size_cases();
void register_batch_cases();
void register_rate_cases();
void register_budget_cases();
void register_drain_cases();
void register_host_cases();
void register_beside_cases();
void register_mode_cases();
void register_kernel_cases();
void register_timeline_cases();
void register_copy_cases();
void register_attach_cases();

/// Moves and writes until standard input is closed, as the load for a measurement in another
/// process. Prints "running" once it has started.
void run_beside_another();

}  // namespace vma
