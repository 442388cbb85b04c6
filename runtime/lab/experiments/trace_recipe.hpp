#pragma once

#include "lab/experiments/experiment.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// What the trace is, or all that it is made of. Throws: Error for an input that has not all that
/// belongs to it.
std::vector<std::string> files_of(const ExperimentTrace& trace);

/// How a trace of an experiment is made for one seed, and of which bytes. Knows a trace that was
/// made by the note beside it: one line of JSON, as `docs/guide/experiments.md` has it. Immutable.
class TraceRecipe {
 public:
  /// Reads what is converted, for its sum. Requires: `trace` is made, and lives as long as this.
  /// Throws: Error{invalid_argument} for a file that cannot be read.
  TraceRecipe(const ExperimentTrace& trace, std::uint64_t seed);

  /// Throws: as `generate_trace` and `convert_trace`; Error{invalid_argument} if what is converted
  /// has changed meanwhile.
  void make(const std::string& output) const;

  /// Of a trace that was made by it, with its sum.
  std::string note(const std::string& trace_sum) const;
  /// The sum in such a note; nothing if it is not whole. Throws: Error{invalid_argument} that says
  /// what differs, if it is of a trace that was made otherwise, or of other bytes.
  std::optional<std::string> sum_in(const std::string& note, const std::string& file) const;

 private:
  boost::json::object input_sums() const;

  const ExperimentTrace& trace_;
  const std::uint64_t seed_;
  boost::json::object inputs_;
};

}  // namespace vma
