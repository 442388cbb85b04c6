#include "lab/experiments/experiment.hpp"

#include "lab/experiments/recorded_inputs.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "lab/policies/lab_policies.hpp"
#include "scheduling/policy_library.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t cells_max = 1'000'000;
constexpr std::size_t file_name_bytes_max = 200;  // The usual limit of 255, less extensions.
constexpr char between = '~';

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._=,+-").find(c) != std::string_view::npos;
}

boost::json::value milliseconds_or_null(std::optional<Time> time) {
  if (!time) return nullptr;
  return std::chrono::duration<double, std::milli>(*time).count();
}

std::string seed_text(const ExperimentCell& cell) {
  return fmt::format("s{}", cell.seed);
}

/// Splits "cost_benefit:margin=1" into its two parts.
std::vector<std::string> parts_of(const std::string& policy) {
  const std::size_t colon = policy.find(':');
  if (colon == std::string::npos) return {policy};
  return {policy.substr(0, colon), policy.substr(colon + 1)};
}

std::string id_of(const Experiment& experiment, const ExperimentCell& cell) {
  std::vector<std::string> parts{experiment.machines[cell.machine].name,
                                 experiment.traces[cell.trace].name};
  for (std::string& part : parts_of(cell.policy)) parts.push_back(std::move(part));
  parts.push_back(cell.router);
  parts.push_back(seed_text(cell));
  return file_name_of(parts);
}

}  // namespace

std::unique_ptr<Policy> make_policy(const Experiment& experiment, const std::string& text) {
  const auto library = experiment.libraries.find(text);
  if (library == experiment.libraries.end()) return load_policy(text, lab_policies());
  PolicyText split = split_policy_text(text);
  split.path = library->second;
  return load_library_policy(split);
}

std::string_view to_string(ExperimentTrace::Origin origin) noexcept {
  switch (origin) {
    case ExperimentTrace::Origin::real: return "real";
    case ExperimentTrace::Origin::synthetic: return "synthetic";
    case ExperimentTrace::Origin::held_out: return "held_out";
  }
  return "unknown";
}

std::string file_name_of(const std::vector<std::string>& parts) {
  const std::string exact = fmt::format("{}", fmt::join(parts, std::string(1, between)));
  std::string name;
  for (const std::string& part : parts) {
    if (!name.empty()) name += between;
    for (const char c : part) name += is_plain(c) ? c : '_';
  }
  // A leading dot hides the file, and a leading dash looks like an option.
  if (name.front() == '.' || name.front() == '-') name.front() = '_';
  name.resize(std::min(name.size(), file_name_bytes_max));
  if (name == exact) return name;
  ContentSum sum;
  for (const std::string& part : parts) sum.add(fmt::format("{} {}", part.size(), part));
  return fmt::format("{}{}{}", name, between, sum.text());
}

std::vector<ExperimentCell> cells_of(const Experiment& experiment) {
  const std::size_t most = experiment.machines.size() * experiment.traces.size() *
                           experiment.policies.size() * experiment.routers.size();
  if (most > cells_max || most * experiment.seeds.size() > cells_max) {
    throw Error(ErrorKind::invalid_argument, "vmart-lab run",
                fmt::format("{}: more than {} cells", experiment.file, cells_max));
  }
  std::vector<ExperimentCell> cells;
  ExperimentCell cell;
  for (cell.machine = 0; cell.machine < experiment.machines.size(); ++cell.machine) {
    for (cell.trace = 0; cell.trace < experiment.traces.size(); ++cell.trace) {
      for (const std::string& policy : experiment.policies) {
        cell.policy = policy;
        for (const std::string& router : experiment.routers) {
          cell.router = router;
          for (const std::uint64_t seed : experiment.seeds) {
            cell.seed = seed;
            cell.id = id_of(experiment, cell);
            cells.push_back(cell);
            if (!experiment.traces[cell.trace].draws()) break;
          }
        }
      }
    }
  }
  return cells;
}

std::string bound_id(const Experiment& experiment, const ExperimentCell& cell) {
  return file_name_of({experiment.machines[cell.machine].name, experiment.traces[cell.trace].name,
                       cell.router, seed_text(cell)});
}

boost::json::object to_json(const Experiment& experiment, const ExperimentCell& cell) {
  return {{"id", cell.id},
          {"machine", experiment.machines[cell.machine].name},
          {"trace", experiment.traces[cell.trace].name},
          {"policy", cell.policy},
          {"router", cell.router},
          {"seed", cell.seed},
          {"pacing", boost::json::string_view(to_string(experiment.pacing))},
          {"chunk_bytes", experiment.chunk_bytes},
          {"admission", boost::json::string_view(to_string(experiment.admission))},
          {"admission_memory", boost::json::string_view(to_string(experiment.admission_memory))},
          {"slo_first_ms", milliseconds_or_null(experiment.limits.first)},
          {"slo_step_ms", milliseconds_or_null(experiment.limits.step)}};
}

}  // namespace vma
