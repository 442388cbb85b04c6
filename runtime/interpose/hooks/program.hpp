#pragma once

#include "interpose/cross_copies.hpp"
#include "interpose/graphs/graph_places.hpp"
#include "interpose/graphs/graph_uses.hpp"
#include "interpose/limits.hpp"
#include "interpose/memory_handles.hpp"
#include "interpose/program_mappings.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_pools.hpp"
#include "interpose/program_streams.hpp"
#include "interpose/refusals.hpp"
#include "interpose/room.hpp"
#include "interpose/uses.hpp"

#include <cstddef>
#include <cstdint>

namespace vma::interpose {

/// All that is known of the program that this library was loaded into. Each part knows only those
/// above it; what concerns several, the hooks tell each of them.
struct Program {
  /// What the program believes to have on the GPU, rounded to the driver's pages, with handles that
  /// are not mapped and with what is free in pools.
  std::uint64_t bytes_of(int device) noexcept;
  /// How much more memory of the GPU would be free if all memory of the program lay where the
  /// program believes; may be negative.
  long long hidden_bytes(int device) noexcept;
  /// Changes what the program is told of a GPU's memory to what holds under its limit: the GPU is
  /// as large as that, and contains all that the program has allocated on it.
  void limit_memory_info(int device, std::size_t& free_bytes, std::size_t& total_bytes) noexcept;

  Refusals refusals;
  ProgramStreams streams{refusals, &ProgramPools::forget_stream};
  Limits limits{streams};
  ProgramMemory memory{streams, limits};
  MemoryHandles handles{streams, memory};
  ProgramPools pools{streams, memory, limits};
  ProgramMappings mappings{streams, memory, pools, limits};
  CrossCopies copies{streams, memory};
  Uses uses{streams, memory};
  GraphUses graph_uses{uses};
  GraphPlaces graph_places{memory, uses};
};

/// The only one. Never destroyed: the program calls the driver until the process ends.
Program& program() noexcept;

}  // namespace vma::interpose
