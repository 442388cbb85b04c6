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

/// Makes a trace of nothing but parameters and a seed: the same ones give the same bytes.
struct TraceGenerator {
  std::string_view name;
  std::string_view meaning;  ///< One line.
  std::span<const TraceParameter> parameters;
  void (*generate)(const TraceValues& values, TraceRandom& random, EventOrder& order);
};

/// All there are, in the order of the alphabet.
std::span<const TraceGenerator> trace_generators();

struct GenerateOptions {
  std::string name;  ///< Of `trace_generators`.
  std::string output;
  std::vector<std::string> values;  ///< "name=value".
  std::uint64_t seed = 1;
};

/// "vmart-lab generate rebalance seed=1 block_bytes=...": the generator and all its parameters.
std::string how_made(const GenerateOptions& options);

/// Makes a trace, in the form of the ending of `output`. What is written when it fails is removed.
/// Throws: Error{invalid_argument} for an unknown name or parameter, Error{driver_failure} when the
/// output cannot be written.
TraceAudit generate_trace(const GenerateOptions& options);

}  // namespace vma
