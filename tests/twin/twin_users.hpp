#pragma once

#include "twin/twin_world.hpp"

namespace vma {

// What the threads of a play do until the world comes to its end; each with random numbers of its
// own, which follow from the plan's seed and the thread's number. They throw what they fail with.

/// Adds at random to array and twin, in bursts, and never waits for a move.
void write_twins(TwinWorld& world, unsigned number);
/// Adds to lines of its own and takes the same away again, so that old bytes come back.
void write_waves(TwinWorld& world, unsigned number);

/// What `TwinCompany` says of each.
void capture_graphs(TwinWorld& world, unsigned number);
void free_plain_memory(TwinWorld& world, unsigned number);
void use_new_streams(TwinWorld& world, unsigned number);
void pin_at_times(TwinWorld& world, unsigned number);
void forbid_writing_at_times(TwinWorld& world, unsigned number);
void read_and_write_from_host(TwinWorld& world, unsigned number);
void free_what_moves(TwinWorld& world, unsigned number);

}  // namespace vma
