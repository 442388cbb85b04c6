#include "lab/import/trace_formats.hpp"

#include "base/json.hpp"
#include "lab/import/python_child.hpp"
#include "lab/trace/json_trace.hpp"
#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

/// The registry of vmart.lab.importers, which owns all texts of the formats.
class ForeignFormats {
 public:
  ForeignFormats() : told_(python_answer({"formats"})) {
    for (const json::value& one : told_.as_array()) {
      std::vector<TraceParameter>& parameters = parameters_.emplace_back();
      for (const json::value& parameter : one.at("parameters").as_array())
        parameters.push_back(parameter_of(parameter));
    }
    for (std::size_t at = 0; at < parameters_.size(); ++at) {
      const json::value& one = told_.as_array()[at];
      formats_.push_back({text(one, "name"), text(one, "meaning"), text(one, "origin"),
                          text(one, "licence"), parameters_[at]});
    }
  }

  std::span<const TraceFormat> all() const { return formats_; }

 private:
  static std::string_view text(const json::value& of, const char* key) {
    return of.at(key).as_string();
  }
  static TraceParameter parameter_of(const json::value& one) {
    const auto number = [&one](const char* key) { return one.at(key).to_number<double>(); };
    return {text(one, "name"), number("otherwise"),  number("least"),
            number("most"),    text(one, "meaning"), one.at("whole").as_bool()};
  }

  const json::value told_;
  std::vector<std::vector<TraceParameter>> parameters_;
  std::vector<TraceFormat> formats_;
};

/// From the outcome of the importer.
BadLines bad_lines_of(const ConvertOptions& options, const json::object& outcome) {
  BadLines bad(options.input, options.bad_lines_max);
  const json::value* const told = outcome.if_contains("bad_lines");
  if (told == nullptr) return bad;
  for (const json::value& one : told->as_array())
    bad.add(one.at(0).to_number<std::uint64_t>(), std::string(one.at(1).as_string()));
  return bad;
}

std::vector<std::string> events_arguments(const ConvertOptions& options) {
  std::vector<std::string> arguments{"events", options.format,
                                     "--seed=" + std::to_string(options.seed),
                                     "--bad-lines=" + std::to_string(options.bad_lines_max)};
  for (const std::string& value : options.values) arguments.push_back("--param=" + value);
  arguments.insert(arguments.end(), {"--", options.input});
  return arguments;
}

}  // namespace

std::span<const TraceFormat> trace_formats() {
  static const std::vector<TraceFormat> all = [] {
    static const ForeignFormats foreign;
    std::vector<TraceFormat> formats(foreign.all().begin(), foreign.all().end());
    formats.push_back(recording_format());
    std::ranges::sort(formats, {}, &TraceFormat::name);
    return formats;
  }();
  return all;
}

namespace {

constexpr std::string_view own = "recording";

const TraceFormat& format_of(const std::string& name) {
  const std::span<const TraceFormat> formats = trace_formats();
  const auto found = std::ranges::find(formats, name, &TraceFormat::name);
  if (found != formats.end()) return *found;
  std::string known = "trace";
  for (const TraceFormat& one : formats) known += fmt::format(", {}", one.name);
  throw Error(ErrorKind::invalid_argument, "convert",
              fmt::format("\"{}\" is not a format; known are {}", name, known));
}

/// Throws: Error{invalid_argument} if a conversion gave no events.
void require_events(const ConvertOptions& options, const TraceAudit& audit) {
  if (audit.events() > 0) return;
  throw Error(ErrorKind::invalid_argument, "convert",
              fmt::format("{}: contains nothing that becomes an event", options.input));
}

std::string how_made(const ConvertOptions& options, const TraceValues& values) {
  return fmt::format("vmart-lab convert {} seed={} {}", options.format, options.seed,
                     values.text());
}

ConvertReport convert_own(const ConvertOptions& options) {
  const TraceFormat format = recording_format();
  const TraceValues values(format.parameters, options.values);
  const std::string file = std::filesystem::path(options.input).filename().string();
  TraceHeader header;
  header.name = fmt::format("{} {}", format.name, file);
  header.origin = fmt::format("{}: {}", format.origin, file);
  header.licence = format.licence;
  header.made = how_made(options, values);
  BadLines bad(options.input, options.bad_lines_max);
  const auto sink = create_trace(options.output, header);
  EventOrder order(*sink);
  format.convert({options.input, values, options.seed, bad}, order);
  order.finish();
  require_events(options, order.audit());
  sink->finish();
  return {std::move(header), order.audit(), std::move(bad)};
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
  return {source->header(), std::move(audit), bad != nullptr ? *bad : BadLines(options.input)};
}

/// All files that are read for an input.
std::vector<std::string> files_of_foreign(const ConvertOptions& options) {
  std::vector<std::string> files;
  const json::value told = python_answer({"files", options.format, "--", options.input});
  for (const json::value& file : told.as_array()) files.emplace_back(file.as_string());
  return files;
}

/// What `read` returns of the importer's output. Throws: Error{invalid_argument} that says why the
/// importer has failed; only if it has not, what is wrong with its output.
template <typename Read>
auto read_output(PythonChild& importer, const ConvertOptions& options, Read read) try {
  return read();
} catch (const Error& error) {
  importer.finish(options.input);
  const std::string path = importer.output() + ": ";
  std::string_view why = error.what();
  if (const std::size_t at = why.find(path); at != why.npos) why.remove_prefix(at + path.size());
  throw Error(ErrorKind::invalid_argument, "convert",
              fmt::format("{}: the importer's output: {}", options.input, why));
}

/// Python turns the file into events; this program checks and writes them.
ConvertReport import_foreign(const ConvertOptions& options) {
  PythonChild importer(events_arguments(options));
  const auto open = [&] { return read_json_trace(importer.output(), 0); };
  const auto source = read_output(importer, options, open);
  const auto next = [&] { return source->next(); };
  const auto sink = create_trace(options.output, source->header());
  TraceAudit audit;
  for (auto events = read_output(importer, options, next); !events.empty();
       events = read_output(importer, options, next)) {
    audit.add(events);
    if (audit.fault_count() > 0) {
      const TraceAudit::Fault& first = audit.faults().front();
      throw Error(ErrorKind::invalid_argument, "convert",
                  fmt::format("{}: event {}: {}", options.input, first.event, first.reason));
    }
    sink->write(events, source->tags());
  }
  BadLines bad = bad_lines_of(options, importer.finish(options.input));
  require_events(options, audit);
  sink->finish();
  return {source->header(), std::move(audit), std::move(bad)};
}

}  // namespace

std::vector<std::string> files_of(const ConvertOptions& options) {
  return options.format == own ? recording_format().files(options.input)
                               : files_of_foreign(options);
}

std::string how_made(const ConvertOptions& options) {
  return how_made(options, TraceValues(format_of(options.format).parameters, options.values));
}

ConvertReport convert_trace(const ConvertOptions& options) {
  std::error_code none;
  if (std::filesystem::equivalent(options.input, options.output, none)) {
    throw Error(ErrorKind::invalid_argument, "convert",
                fmt::format("{}: is both the input and the output", options.input));
  }
  if (options.format == "trace") return copy_trace(options);
  return options.format == own ? convert_own(options) : import_foreign(options);
}

}  // namespace vma
