#include "tools/vmart-lab/lab_commands.hpp"

#include "base/units.hpp"
#include "lab/trace/trace_files.hpp"
#include "tools/command_line/command_line.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

void print(const TraceAudit& audit) {
  fmt::print("{} events from {:.6f} to {:.6f} s:", audit.events(),
             static_cast<double>(audit.begin().count()) / 1e9,
             static_cast<double>(audit.end().count()) / 1e9);
  for (unsigned kind = 1; kind <= trace_event_kinds; ++kind) {
    const auto one = static_cast<TraceEventKind>(kind);
    fmt::print("{} {} {}", kind > 1 ? "," : "", audit.count(one), to_string(one));
  }
  fmt::print("\nat most {:.3f} GiB are allocated at once; {} objects remain at the end\n",
             static_cast<double>(audit.bytes_live_max()) / GiB, audit.objects_live());
  fmt::print("{:.3f} GiB read, {:.3f} GiB written\n", audit.bytes_read() / GiB,
             audit.bytes_written() / GiB);
  if (audit.unplaced() > 0) {
    fmt::print("{} accesses name no device; a router chooses\n", audit.unplaced());
  }
  if (!audit.devices().empty()) fmt::print("GPUs {}\n", fmt::join(audit.devices(), ", "));
}

void print(const BadLines& bad) {
  if (bad.count() == 0) return;
  fmt::print("{} bad lines in {}; the first:\n", bad.count(), bad.file());
  for (const BadLine& line : bad.kept()) fmt::print("  line {}: {}\n", line.line, line.reason);
}

json::object json_of(const ConvertReport& report) {
  json::array bad;
  for (const BadLine& line : report.bad.kept())
    bad.push_back(json::object{{"line", line.line}, {"reason", line.reason}});
  json::object json = to_json(report.header, report.audit);
  json["bad_lines"] = report.bad.count();
  json["first_bad_lines"] = std::move(bad);
  return json;
}

}  // namespace

int run_convert(const ConvertCommand& command) {
  const ConvertReport report = convert_trace(command.options);
  if (command.json) {
    fmt::print("{}\n", json::serialize(json_of(report)));
    return 0;
  }
  print(report.audit);
  print(report.bad);
  return 0;
}

int run_generate(const GenerateOptions& options) {
  print(generate_trace(options));
  return 0;
}

int run_trace(const TraceCommand& command) {
  const auto source = open_trace(command.path, command.bad_lines_max);
  const TraceAudit audit = audit_trace(*source);
  const TraceHeader& header = source->header();
  for (const auto& [name, text] : {std::pair("name", &header.name),
                                   {"origin", &header.origin},
                                   {"licence", &header.licence},
                                   {"made", &header.made}}) {
    if (!text->empty()) fmt::print("{}: {}\n", name, *text);
  }
  print(audit);
  const BadLines* const bad = source->bad_lines();
  if (bad != nullptr) print(*bad);
  for (const TraceAudit::Fault& fault : audit.faults()) {
    fmt::print("event {}: {}\n", fault.event, fault.reason);
  }
  if (audit.fault_count() > 0) fmt::print("{} events do not fit\n", audit.fault_count());
  if (audit.events() == 0) fmt::print("there are no events\n");
  const bool wrong = audit.fault_count() > 0 || audit.events() == 0;
  return wrong || (bad != nullptr && bad->count() > 0) ? 1 : 0;
}

std::string describe_formats() try {
  std::string text = "FORMAT and its parameters:\ntrace: a vmart trace in the other form\n";
  for (const TraceFormat& format : trace_formats()) {
    text += fmt::format("{}: {}\n{}", format.name, format.meaning,
                        describe_parameters(format.parameters));
  }
  return text;
} catch (const Error&) {
  return "FORMAT: trace, recording, and those that are listed here where there is Python 3.10 or "
         "newer with the package vmart.\n";
}

std::string describe_generators() {
  std::string text = "NAME and its parameters:\n";
  for (const TraceGenerator& generator : trace_generators()) {
    text += fmt::format("{}: {}\n{}", generator.name, generator.meaning,
                        describe_parameters(generator.parameters));
  }
  return text;
}

}  // namespace vma
