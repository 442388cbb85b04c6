#pragma once

#include "lab/experiments/experiment.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// The trace's file, or all files that it is made from. Throws: Error for an incomplete input.
std::vector<std::string> files_of(const ExperimentTrace& trace);

/// How a trace of an experiment is made for one seed, and from which bytes. Recognises a trace that
/// it made by the note next to it: one line of JSON, described in `docs/guide/experiments.md`.
/// Immutable.
class TraceRecipe {
 public:
  /// Reads the conversion's input for its checksum. Requires: `trace` is not a plain file, and
  /// outlives this object. Throws: Error{invalid_argument} if a file cannot be read.
  TraceRecipe(const ExperimentTrace& trace, std::uint64_t seed);

  /// Makes the trace. Throws: as `generate_trace` and `convert_trace`; Error{invalid_argument} if
  /// the conversion's input has changed in the meantime.
  void make(const std::string& output) const;

  /// The note for a trace that it made, with the trace's checksum.
  std::string note(const std::string& trace_sum) const;
  /// The checksum in such a note; nothing if the note is incomplete. Throws:
  /// Error{invalid_argument} that says what differs, if the trace was made differently or from
  /// other bytes.
  std::optional<std::string> sum_in(const std::string& note, const std::string& file) const;

 private:
  boost::json::object input_sums() const;

  const ExperimentTrace& trace_;
  const std::uint64_t seed_;
  boost::json::object inputs_;
};

}  // namespace vma
