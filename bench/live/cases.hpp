#pragma once

#include "bench/live/live_machine.hpp"
#include "bench/live/live_range.hpp"
#include "bench/samples.hpp"
#include "bench/live/writers.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace vma {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;
constexpr std::uint64_t chunk_bytes_most = 256 * mebibyte;

/// How a chunk is moved, as benchmarks are named: by the runtime's own copy kernels beside the
/// application, by copy engine while its streams stand at a gate, or under a hold.
enum class MoveMode { live, stopped, held };
std::string mode_label(MoveMode mode);
MigrateOptions options_of(MoveMode mode);

/// Attached streams on all GPUs that write to few tiles of the range.
WriterSpec few_writes(const LiveRange& range, int streams, std::chrono::nanoseconds kernel);

/// One stream of the GPU that no gate stops, which reads and writes memory of its own as fast as it
/// comes: `bytes` of it, at most 256 MiB.
WriterSpec sweeps(Location at, std::uint64_t bytes);

/// How long work stood in all stops so far, as the runtime's counters have it: right to about 5 %.
void add_stops(Sample& sample, const RuntimeStats& stats);

/// A share lost, 0 to 1, of what two measurements around it came to.
double share_lost(double before, double during, double after);

// The cases of bench/live_bench, a file each. Throws: Unavailable where the machine lacks GPUs.
void register_stall_cases();
void register_size_cases();
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

/// Moves and writes until standard input closes, for the measurement of another process; says
/// "running" when it is under way.
void run_beside_another();

}  // namespace vma
