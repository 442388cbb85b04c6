#include "lab/generate/trace_generators.hpp"

#include "lab/trace/trace_files.hpp"
#include "lab/generate/expert_routing.hpp"
#include "lab/generate/phase_change.hpp"
#include "lab/generate/pipeline.hpp"
#include "lab/generate/producer_consumer.hpp"
#include "lab/generate/rebalance.hpp"
#include "lab/generate/serving.hpp"
#include "lab/generate/zipf_drift.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vma {
namespace {

const std::array generators{
    TraceGenerator{"moe", "mixture of experts: GPUs choose a few experts per token", moe_parameters,
                   generate_moe},
    TraceGenerator{"phase-change", "working sets that change in each phase",
                   phase_change_parameters, generate_phase_change},
    TraceGenerator{"pipeline", "training of a model whose stages are on several GPUs",
                   pipeline_parameters, generate_pipeline},
    TraceGenerator{"producer-consumer", "pairs of GPUs that pass buffers on",
                   producer_consumer_parameters, generate_producer_consumer},
    TraceGenerator{"rebalance", "blocks that circulate among the GPUs, as in the example",
                   rebalance_parameters, generate_rebalance},
    TraceGenerator{"serving", "a language model's weights and the KV caches of its requests",
                   serving_parameters, generate_serving},
    TraceGenerator{"zipf-drift", "a few hot objects that change over time", zipf_drift_parameters,
                   generate_zipf_drift}};

const TraceGenerator& generator_of(const std::string& name) {
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

std::span<const TraceGenerator> trace_generators() {
  return generators;
}

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
