#include "lab/import/trace_formats.hpp"

#include "lab/import/azure.hpp"
#include "lab/import/dlrm.hpp"
#include "lab/import/g10.hpp"
#include "lab/import/llmservingsim.hpp"
#include "lab/import/mooncake.hpp"
#include "lab/import/recording_records.hpp"
#include "lab/import/recording_uses.hpp"
#include "lab/import/vidur.hpp"
#include "lab/import/vscsi.hpp"
#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace vma {
namespace {

const std::array formats{
    TraceFormat{"azure", "Azure LLM inference requests: AzureLLMInferenceTrace_*.csv",
                "Azure/AzurePublicDataset (Patel et al., Splitwise, ISCA 2024)", "CC-BY-4.0",
                azure_parameters, convert_azure},
    TraceFormat{"dlrm", "locality statistics of embedding look-ups: locality_stats_*.txt",
                "facebookresearch/dlrm_datasets", "MIT", dlrm_parameters, convert_dlrm},
    TraceFormat{"g10", "kernels and tensors of training: *_kernels.jsonl with *_tensors.csv",
                "derived from platformxlab/G10", "Apache-2.0", g10_parameters, convert_g10,
                g10_files},
    TraceFormat{"llmservingsim", "requests of a run of vLLM: *.vllm_requests.jsonl",
                "casys-kaist/LLMServingSim", "MIT", llmservingsim_parameters,
                convert_llmservingsim},
    TraceFormat{"mooncake", "requests with shared prefixes: *_trace.jsonl",
                "kvcache-ai/Mooncake (FAST 2025)", "Apache-2.0", mooncake_parameters,
                convert_mooncake},
    TraceFormat{"recording", "a recording of the runtime: vmart-PID-N.rec", "vmart recording", "",
                recording_parameters, convert_recording, recording_files},
    TraceFormat{"vidur", "request lengths: *_lengths.csv", "microsoft/vidur", "MIT",
                vidur_parameters, convert_vidur},
    TraceFormat{"vscsi", "I/O of a virtual disk: cloudPhysicsIO.csv",
                "CloudPhysics (Waldspurger et al., FAST 2015), as in 1a1a11a/libCacheSim", "",
                vscsi_parameters, convert_vscsi}};

const TraceFormat& format_of(const std::string& name) {
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const TraceFormat& one) { return one.name == name; });
  if (found != formats.end()) return *found;
  std::string known = "trace";
  for (const TraceFormat& one : formats) known += fmt::format(", {}", one.name);
  throw Error(ErrorKind::invalid_argument, "convert",
              fmt::format("\"{}\" is not a format; known are {}", name, known));
}

TraceHeader header_of(const TraceFormat& format, const ConvertOptions& options) {
  const std::string file = std::filesystem::path(options.input).filename().string();
  TraceHeader header;
  header.name = fmt::format("{} {}", format.name, file);
  header.origin = fmt::format("{}: {}", format.origin, file);
  header.licence = format.licence;
  header.made = how_made(options);
  return header;
}

/// Copies a trace unchanged from one trace format to the other.
ConvertReport copy_trace(const ConvertOptions& options) {
  const TraceValues none({}, options.values);
  const auto source = open_trace(options.input, options.bad_lines_max);
  const auto sink = create_trace(options.output, source->header());
  TraceAudit audit;
  for (auto events = source->next(); !events.empty(); events = source->next()) {
    audit.add(events);
    sink->write(events, source->tags());
  }
  sink->finish();
  const BadLines* const bad = source->bad_lines();
  return {std::move(audit), bad != nullptr ? *bad : BadLines(options.input)};
}

}  // namespace

std::span<const TraceFormat> trace_formats() {
  return formats;
}

std::vector<std::string> files_of(const ConvertOptions& options) {
  const TraceFormat& format = format_of(options.format);
  return format.files != nullptr ? format.files(options.input) : std::vector{options.input};
}

std::string how_made(const ConvertOptions& options) {
  const TraceValues values(format_of(options.format).parameters, options.values);
  return fmt::format("vmart-lab convert {} seed={} {}", options.format, options.seed,
                     values.text());
}

ConvertReport convert_trace(const ConvertOptions& options) {
  std::error_code none;
  if (std::filesystem::equivalent(options.input, options.output, none)) {
    throw Error(ErrorKind::invalid_argument, "convert",
                fmt::format("{}: is both the input and the output", options.input));
  }
  if (options.format == "trace") return copy_trace(options);
  const TraceFormat& format = format_of(options.format);
  const TraceValues values(format.parameters, options.values);
  BadLines bad(options.input, options.bad_lines_max);
  const auto sink = create_trace(options.output, header_of(format, options));
  EventOrder order(*sink);
  format.convert({options.input, values, options.seed, bad}, order);
  order.finish();
  if (order.audit().events() == 0) {
    throw Error(ErrorKind::invalid_argument, "convert",
                fmt::format("{}: contains nothing that becomes an event", options.input));
  }
  sink->finish();
  return {order.audit(), std::move(bad)};
}

}  // namespace vma
