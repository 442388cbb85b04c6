#pragma once

#include "lab/replay/replay.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_metrics.hpp"

#include <vma/policy.hpp>

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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
  /// Position in the experiment's file, for errors: "small.json: traces[0]".
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

/// Creates a policy of the experiment, built in or from a library. A library is loaded once and
/// stays unchanged even if its file changes. Any thread. Throws: Error{invalid_argument}.
std::unique_ptr<Policy> make_policy(const Experiment& experiment, const std::string& text);

/// One combination of an experiment's machines, traces, policies, routers and seeds.
struct ExperimentCell {
  std::string id;           ///< A readable file name that depends only on the members below.
  std::size_t machine = 0;  ///< Index into the experiment's machines.
  std::size_t trace = 0;    ///< Index into the experiment's traces.
  std::string policy, router;
  std::uint64_t seed = 0;
};

/// All cells, ordered by machine, trace, policy, router and seed. A trace from a file does not
/// depend on the seed, so it is used only with the first. Throws: Error{invalid_argument} if there
/// are too many cells.
std::vector<ExperimentCell> cells_of(const Experiment& experiment);

/// The id of the bound shared by all cells that differ only in the policy.
std::string bound_id(const Experiment& experiment, const ExperimentCell& cell);

/// Identifies the cell; `docs/guide/experiments.md` describes the keys.
boost::json::object to_json(const Experiment& experiment, const ExperimentCell& cell);

/// Combines `parts` into one file name: unchanged and joined by `~` if they are short and contain
/// only letters, digits and ._=,+-; otherwise with a checksum.
std::string file_name_of(const std::vector<std::string>& parts);

}  // namespace vma
