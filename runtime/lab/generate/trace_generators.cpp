#include "lab/generate/trace_generators.hpp"

#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vma {

std::span<const TraceGenerator> trace_generators() {
  static const std::array all{moe_generator(),       phase_change_generator(),
                              pipeline_generator(),  producer_consumer_generator(),
                              rebalance_generator(), serving_generator(),
                              zipf_drift_generator()};
  return all;
}

namespace {

const TraceGenerator& generator_of(const std::string& name) {
  const std::span<const TraceGenerator> generators = trace_generators();
  const auto found = std::find_if(generators.begin(), generators.end(),
                                  [&](const TraceGenerator& one) { return one.name == name; });
  if (found != generators.end()) return *found;
  std::string known;
  for (const TraceGenerator& one : generators) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  throw Error(ErrorKind::invalid_argument, "generate",
              fmt::format("\"{}\" is not a generator; known are {}", name, known));
}

}  // namespace

std::string how_made(const GenerateOptions& options) {
  const TraceValues values(generator_of(options.name).parameters, options.values);
  return fmt::format("vmart-lab generate {} seed={} {}", options.name, options.seed, values.text());
}

TraceAudit generate_trace(const GenerateOptions& options) {
  const TraceGenerator& generator = generator_of(options.name);
  const TraceValues values(generator.parameters, options.values);
  TraceHeader header;
  header.name = generator.name;
  header.origin = "synthetic";
  header.made = how_made(options);
  const auto sink = create_trace(options.output, header);
  EventOrder order(*sink);
  TraceRandom random(options.seed);
  generator.generate(values, random, order);
  order.finish();
  if (order.audit().events() == 0) {
    throw Error(ErrorKind::invalid_argument, "generate", "these parameters produce no event");
  }
  sink->finish();
  return order.audit();
}

}  // namespace vma
