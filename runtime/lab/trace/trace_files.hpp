#pragma once

#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_sink.hpp"
#include "lab/trace/trace_source.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// Opens a trace. Its first bytes tell the format: binary, or JSON lines, possibly compressed.
/// Throws: Error{invalid_argument}.
std::unique_ptr<TraceSource> open_trace(const std::string& path,
                                        std::uint64_t bad_lines_max = BadLines::count_max);

/// Audits all events of a trace, which is read to its end. Throws: as the source.
TraceAudit audit_trace(TraceSource& source);
/// The same of a file. Throws: as the source, also for one bad line more.
TraceAudit audit_trace(const std::string& path, std::uint64_t bad_lines_max = 0);

/// The extension selects the format: `.jsonl`, or `.vtrace` for the binary one. Throws:
/// Error{invalid_argument} for another extension, or a file that cannot be created.
std::unique_ptr<TraceSink> create_trace(const std::string& path, const TraceHeader& header);

}  // namespace vma
