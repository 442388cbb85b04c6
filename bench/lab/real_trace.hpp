#pragma once

#include "lab/import/trace_formats.hpp"
#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_source.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace vma {

/// A trace that is converted when it is first used, into a file that lives as long as this object.
/// Not thread-safe.
class RealTrace {
 public:
  /// Ignores the options' output.
  explicit RealTrace(ConvertOptions made);
  ~RealTrace();
  RealTrace(const RealTrace&) = delete;
  RealTrace& operator=(const RealTrace&) = delete;

  /// Throws: as `convert_trace`.
  const TraceRoom& room();
  /// The events up to and including as many accesses. Throws: as `convert_trace`.
  std::unique_ptr<TraceSource> open(std::uint64_t accesses_max);

 private:
  void convert();

  ConvertOptions made_;
  std::filesystem::path file_;  // Empty: not converted.
  TraceRoom room_;
};

}  // namespace vma
