#include "lab/import/trace_formats.hpp"

#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace vma {

std::span<const TraceFormat> trace_formats() {
  static const std::array all{azure_format(),         dlrm_format(),     g10_format(),
                              llmservingsim_format(), mooncake_format(), recording_format(),
                              vidur_format(),         vscsi_format()};
  return all;
}

namespace {

const TraceFormat& format_of(const std::string& name) {
  const std::span<const TraceFormat> formats = trace_formats();
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
