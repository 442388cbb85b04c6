#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"
#include "lab/trace/event_order.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Creates a trace from parameters and a seed alone: equal ones give equal bytes.
struct TraceGenerator {
  std::string_view name;
  std::string_view meaning;  ///< One line.
  std::span<const TraceParameter> parameters;
  void (*generate)(const TraceValues& values, TraceRandom& random, EventOrder& order);
};

/// All generators, in alphabetical order.
std::span<const TraceGenerator> trace_generators();

struct GenerateOptions {
  std::string name;  ///< A name from `trace_generators`.
  std::string output;
  std::vector<std::string> values;  ///< Each "name=value".
  std::uint64_t seed = 1;
};

/// Describes the generator and all its parameters: "vmart-lab generate rebalance seed=1
/// block_bytes=...".
std::string how_made(const GenerateOptions& options);

/// Creates a trace in the format given by the extension of `output`. Removes partial output on
/// failure. Throws: Error{invalid_argument} for an unknown name or parameter, Error{driver_failure}
/// if the output cannot be written.
TraceAudit generate_trace(const GenerateOptions& options);

// The generators, one a file.
TraceGenerator moe_generator();
TraceGenerator phase_change_generator();
TraceGenerator pipeline_generator();
TraceGenerator producer_consumer_generator();
TraceGenerator rebalance_generator();
TraceGenerator serving_generator();
TraceGenerator zipf_drift_generator();

}  // namespace vma
