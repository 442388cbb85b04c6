#pragma once

#include "base/clock.hpp"
#include "driver/driver.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

struct GpuDescription {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_capability = 0;  ///< 90 for 9.0.
  int copy_engines = 0;
  int hardware_queues = 8;  ///< Of one context.
  int host_node = 0;        ///< The closest one.
  double local_gb_s = 0;    ///< A copy inside the GPU, bytes moved one way.
};

struct HostNodeDescription {
  std::uint64_t memory_bytes = 0;
};

/// One direction between a pair of GPUs. GPUs with kind `none` cannot reach each other's memory.
struct PeerLink {
  LinkKind kind = LinkKind::none;
  double gb_s = 0;
  bool native_atomics = false;
  /// Combined rate of kernels in and out at each of the two; 0: the sum of both directions alone.
  double both_ways_gb_s = 0;
};

/// Between a GPU and a host node, both directions.
struct HostLink {
  double to_gpu_gb_s = 0;
  double from_gpu_gb_s = 0;
  bool native_atomics = false;  ///< Atomics go through the link, as over NVLink-C2C.
};

/// A duration that depends on a size and on the number of GPUs. Linear between the entries,
/// constant outside the sizes, extrapolated beyond the counts of GPUs but never below `floor_us`.
struct CostTable {
  std::vector<double> sizes_mib;
  std::vector<int> gpus;                ///< One or more; with one entry the count does not matter.
  std::vector<std::vector<double>> us;  ///< A row for each of `gpus`, a column for each size.
  double floor_us = 1;
};

/// Costs of calls. `docs/results/measurements.md` says where the numbers of the H200 come from.
struct CostParameters {
  CostTable create, release, unmap;
  /// The access grant of one mapping: of a fresh chunk with no mappings between the GPUs, of a
  /// fresh chunk beside a keeper, of a chunk granted before, of one that is also shown elsewhere.
  CostTable grant_cold, grant_first, grant_later, grant_shadow;
  /// The same from `size_class_bytes` on beside a keeper of that size.
  CostTable grant_first_own_class, grant_later_own_class;
  std::uint64_t size_class_bytes = 0;  ///< Zero: the size makes no difference.
  double host_grant_us_per_mib = 0;    ///< For each GPU.
  double host_unmap_us_per_mib = 0;
  double host_create_gb_s = 0;  ///< Zero: like device memory.
  double plain_allocate_us = 0, plain_free_us = 0;
  double reserve_us = 0, unreserve_us = 0, map_us = 0;
  double launch_us = 0, record_us = 0, batch_us = 0, wait_us = 0, query_us = 0, enqueue_us = 0;
  double hold_us = 0, create_event_us = 0, create_stream_us = 0;
  double open_context_us = 0;
  std::uint64_t context_bytes = 0;  ///< Memory that an open context takes on its GPU.
  double load_kernel_us = 0, kernel_us = 0;
  double copy_latency_us = 0;  ///< Added to size over bandwidth.
  double host_copy_gb_s = 0;   ///< One thread of the CPU.
};

/// A machine to simulate, or to compare a real one with. A value; `load_machine` returns only
/// completely checked ones.
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
};

}  // namespace vma
