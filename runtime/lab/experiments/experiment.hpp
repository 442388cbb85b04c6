#pragma once

#include "lab/replay/replay.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_metrics.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

struct ExperimentMachine {
  std::string name;
  ReplayMachine machine;  ///< As described; with `hbm_share`, the HBM depends on the trace.
  std::optional<double> hbm_share = {};
};

/// A trace of an experiment: a file, or how to make it.
struct ExperimentTrace {
  enum class Kind { file, generate, convert };
  /// What its results say something about; they are never averaged with those of another origin.
  enum class Origin { real, synthetic, held_out };

  std::string name;
  /// Position in the experiment's file, for errors: "small.json: line 4: traces[0]".
  std::string where;
  Kind kind = Kind::file;
  Origin origin = Origin::real;
  std::string maker;                ///< Name of the generator or format.
  std::string input;                ///< Path of the trace, or of the conversion's input.
  std::vector<std::string> values;  ///< Each "name=value".

  bool draws() const { return kind != Kind::file; }  ///< Whether it depends on a seed.
};

/// "real", "synthetic", "held_out": of a trace that no parameter was tuned on.
std::string_view to_string(ExperimentTrace::Origin origin) noexcept;

/// The contents of an experiment's file with all names resolved: machines x traces x policies x
/// routers x seeds. A plain value.
struct Experiment {
  std::string file;
  std::string text;  ///< Text of the file.
  std::string name, about;
  std::vector<ExperimentMachine> machines;
  std::vector<ExperimentTrace> traces;
  std::vector<std::string> policies;  ///< As for `VMART_POLICY`, with sweeps expanded.
  /// Policies from libraries, and the absolute paths of these.
  std::map<std::string, std::string> libraries;
  std::vector<std::string> routers;
  Pacing pacing = Pacing::timed;
  Admission admission = Admission::preempt;
  AdmissionMemory admission_memory = AdmissionMemory::all;
  RequestLimits limits;
  std::uint64_t chunk_bytes = 0;
  std::vector<std::uint64_t> seeds;
  bool bounds = false;
};

}  // namespace vma
