#pragma once

#include "twin/twin_world.hpp"

namespace vma {

// What the threads of a play do until the world ends. Each has its own random numbers, determined
// by the plan's seed and the thread's number. Failures are thrown.

/// Adds at random to array and twin, in bursts, and never waits for a move.
void write_twins(TwinWorld& world, unsigned number);
/// Adds to its own lines and subtracts the same again, so that old bytes come back.
void write_waves(TwinWorld& world, unsigned number);

/// As described in `TwinCompany`.
void capture_graphs(TwinWorld& world, unsigned number);
void free_plain_memory(TwinWorld& world, unsigned number);
void use_new_streams(TwinWorld& world, unsigned number);
void pin_at_times(TwinWorld& world, unsigned number);
void forbid_writing_at_times(TwinWorld& world, unsigned number);
void read_and_write_from_host(TwinWorld& world, unsigned number);
void free_what_moves(TwinWorld& world, unsigned number);

}  // namespace vma
