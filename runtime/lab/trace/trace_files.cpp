#include "lab/trace/trace_files.hpp"

#include "lab/trace/binary_trace.hpp"
#include "lab/trace/binary_trace_format.hpp"
#include "lab/trace/json_trace.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace vma {

std::unique_ptr<TraceSource> open_trace(const std::string& path, std::uint64_t bad_lines_max) {
  std::array<char, trace_file.magic.size()> begin{};
  if (path != "-" && std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) {
    // Detecting the format consumes the first bytes, and a pipe cannot be read twice.
    throw Error(ErrorKind::invalid_argument, "open_trace",
                path + " is not a file; use - for the standard input");
  }
  if (path != "-") std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  const bool binary = std::equal(
      begin.begin(), begin.end(), trace_file.magic.begin(),
      [](char read, std::uint8_t magic) { return static_cast<std::uint8_t>(read) == magic; });
  if (binary) return read_binary_trace(path);
  return read_json_trace(path, bad_lines_max);
}

TraceAudit audit_trace(TraceSource& source) {
  TraceAudit audit;
  for (auto events = source.next(); !events.empty(); events = source.next()) audit.add(events);
  return audit;
}

TraceAudit audit_trace(const std::string& path, std::uint64_t bad_lines_max) {
  return audit_trace(*open_trace(path, bad_lines_max));
}

std::unique_ptr<TraceSink> create_trace(const std::string& path, const TraceHeader& header) {
  if (path.ends_with(".jsonl")) return write_json_trace(path, header);
  if (path.ends_with(".vtrace")) return write_binary_trace(path, header);
  throw Error(ErrorKind::invalid_argument, "create_trace",
              fmt::format("{}: must end in .jsonl or .vtrace", path));
}

}  // namespace vma
