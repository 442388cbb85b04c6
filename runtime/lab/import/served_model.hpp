#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/event_order.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// The weights of the model that requests use, if the parameter "weight_bytes" is not 0: a copy on
/// each of "gpus" GPUs, an object tagged "weights" that lives to the end. Then each request has a
/// GPU, since it reads that GPU's copy: the one with the fewest requests in progress by the times
/// of a machine without memory bottleneck. Prompts read the weights once. Each output token reads
/// them once for all requests that its GPU serves at the time of the first one, as an engine that
/// batches them does: a share of a pass for each. Not thread-safe.
class ServedModel {
 public:
  /// A GPU that serves a request; by default the router chooses it, and there are no weights.
  struct Server {
    TracePlace at;
    std::uint64_t weights = 0;  ///< Object.
    std::size_t batch = 1;      ///< Requests that it serves, with this one.
  };

  ServedModel(EventOrder& order, const TraceValues& values);

  /// Requires: requests in the order of their starts give the shares above; any order is valid.
  Server serve(Time start, Time end);
  /// An access that reads the weights `passes` times; null if there are none. The caller adds it.
  std::optional<TraceEvent> read(const Server& server, double passes) const;

 private:
  std::uint64_t weight_bytes_;
  std::vector<std::vector<Time>> ends_;  // Of the requests in progress, by GPU.
};

inline constexpr TraceParameter weights_parameter{
    "weight_bytes", 0, 0, 1e13, "size of the model's weights, a copy on each GPU; 0: left out"};
inline constexpr TraceParameter serving_gpus_parameter{
    "gpus", 4, 1, 9999, "GPUs that serve requests; without weights, the router chooses"};

}  // namespace vma
