#pragma once

#include "base/clock.hpp"
#include "driver/driver.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// Maximum number of GPUs and host nodes of a machine.
constexpr int machine_gpus_max = 128;
constexpr int machine_host_nodes_max = 64;

struct GpuDescription {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_capability = 0;  ///< 90 for 9.0.
  int copy_engines = 0;
  int hardware_queues = 8;  ///< Per context.
  int host_node = 0;        ///< The closest one.
  double local_gb_s = 0;    ///< Rate of a copy inside the GPU, counting each byte once.

  bool operator==(const GpuDescription&) const = default;
};

struct HostNodeDescription {
  std::uint64_t memory_bytes = 0;

  bool operator==(const HostNodeDescription&) const = default;
};

/// One direction between a pair of GPUs. GPUs with kind `none` cannot reach each other's memory.
struct PeerLink {
  LinkKind kind = LinkKind::none;
  double gb_s = 0;
  bool native_atomics = false;
  /// Combined rate in and out of each of the two GPUs for kernels; 0: the sum of the one-way rates.
  double both_ways_gb_s = 0;

  bool operator==(const PeerLink&) const = default;
};

/// The link between a GPU and a host node, with a rate for each direction.
struct HostLink {
  double to_gpu_gb_s = 0;
  double from_gpu_gb_s = 0;
  bool native_atomics = false;  ///< Atomics work across the link, as over NVLink-C2C.

  bool operator==(const HostLink&) const = default;
};

/// A duration that depends on a size and on the number of GPUs. Linear between the entries,
/// constant outside the sizes, extrapolated beyond the counts of GPUs but never below `floor_us`.
struct CostTable {
  std::vector<double> sizes_mib;
  std::vector<int> gpus;  ///< At least one entry; with one entry, the count does not matter.
  std::vector<std::vector<double>> us;  ///< A row per entry of `gpus`, a column per size.
  double floor_us = 1;

  bool operator==(const CostTable&) const = default;
};

/// Costs of calls. `docs/results/driver.md` says where the H200's numbers come from.
struct CostParameters {
  CostTable create, release, unmap;
  /// The access grant of one mapping: of a fresh chunk without other mappings between the GPUs, of
  /// a fresh chunk beside a keeper, of a chunk granted before, and of one that is also shown
  /// elsewhere.
  CostTable grant_cold, grant_first, grant_later, grant_shadow;
  /// The same for chunks of at least `size_class_bytes`, beside a keeper of that size.
  CostTable grant_first_own_class, grant_later_own_class;
  std::uint64_t size_class_bytes = 0;  ///< Zero if the size makes no difference.
  double host_grant_us_per_mib = 0;    ///< Per GPU.
  double host_unmap_us_per_mib = 0;
  double host_create_gb_s = 0;  ///< Zero: the same as device memory.
  double plain_allocate_us = 0, plain_free_us = 0;
  double reserve_us = 0, unreserve_us = 0, map_us = 0;
  double launch_us = 0, record_us = 0, batch_us = 0, wait_us = 0, query_us = 0, enqueue_us = 0;
  double hold_us = 0, create_event_us = 0, create_stream_us = 0;
  double open_context_us = 0;
  std::uint64_t context_bytes = 0;  ///< Memory that an open context takes on its GPU.
  double green_context_us = 0;
  std::uint64_t green_context_bytes = 0;
  std::uint64_t own_context_bytes = 0;  ///< The same of a context of the runtime's own.
  /// To take the program's channels off one GPU and to put them back: a fixed part, and a part for
  /// each channel. The GPUs of one suspension take turns. Zero: the machine cannot do that.
  double suspend_us = 0, suspend_channel_us = 0;
  double resume_us = 0, resume_channel_us = 0;
  double load_kernel_us = 0, kernel_us = 0;
  double copy_latency_us = 0;  ///< Added to size divided by bandwidth.
  double host_copy_gb_s = 0;   ///< Copies by one CPU thread.

  bool operator==(const CostParameters&) const = default;
};

/// A machine to simulate, or to compare with a real one. A value; `load_machine` returns only
/// descriptions that passed all checks.
struct MachineDescription {
  std::string name;
  std::string source;  ///< Where its numbers come from, and which are estimates.
  std::uint64_t granularity_bytes = 0;
  bool junk_fill = false;  ///< Fresh memory contains junk, which a program must expect.
  std::vector<GpuDescription> gpus;
  std::vector<HostNodeDescription> host_nodes;
  std::vector<std::vector<PeerLink>> peer_links;  ///< [from][to]
  std::vector<std::vector<HostLink>> host_links;  ///< [gpu][node]
  CostParameters costs;

  bool operator==(const MachineDescription&) const = default;
};

}  // namespace vma
