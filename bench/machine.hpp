#pragma once

#include "bench/samples.hpp"

#include <vma/runtime.hpp>

#include <string>
#include <utility>
#include <vector>

namespace vma {

/// The runtime that the benchmarks of one process share, opened at first use from the environment
/// (VMART_DRIVER and so on) with caches that hold the largest allocation of any benchmark.
Runtime& shared_runtime();
/// Shuts the shared one down, so that a fresh one can be opened: on GPUs a process has one at a
/// time.
void close_shared_runtime();

/// Spins for as long as the driver may need to scrub memory that was given back to it. Until then a
/// first grant of that memory waits (driver 580: 0.6 ms for 256 MiB instead of 0.15 ms), and the
/// driver gives no sign of the end.
void let_scrubbing_end(std::uint64_t freed_bytes);

/// From and to. Every pair of places that the benchmarks move between, both ways: the first two
/// GPUs, and the first GPU and the first host node.
using Route = std::pair<Location, Location>;
std::vector<Route> gpu_routes(Runtime& runtime);
std::vector<Route> host_routes(Runtime& runtime);
/// "gpu0-gpu1", "host0-gpu0": as benchmarks are named.
std::string route_label(const Route& route);

/// Writes bytes that `check_pattern` knows again at the start, the end and between, many places of
/// each chunk but not all bytes: the pattern of one allocation differs from that of another seed.
void write_pattern(Runtime& runtime, void* pointer, std::size_t bytes, std::uint64_t seed);
/// Throws: std::runtime_error that names the first offset where the bytes differ.
void check_pattern(Runtime& runtime, void* pointer, std::size_t bytes, std::uint64_t seed);

}  // namespace vma
