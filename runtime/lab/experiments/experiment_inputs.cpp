#include "lab/experiments/experiment_inputs.hpp"

#include "lab/experiments/content_sum.hpp"
#include "lab/experiments/hbm_share.hpp"

#include <vma/error.hpp>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

namespace vma {

ExperimentInputs::ExperimentInputs(const Experiment& experiment) : experiment_(experiment) {
  for (const ExperimentMachine& machine : experiment.machines)
    machine_sums_.push_back(sum_of_machine(machine.machine));
  for (const auto& [policy, library] : experiment.libraries)
    library_sums_.emplace(policy, sum_of_file(library));
}

ReplayMachine ExperimentInputs::machine_of(const ExperimentCell& cell,
                                           const ReadyTrace& trace) const {
  const ExperimentMachine& asked = experiment_.machines[cell.machine];
  ReplayMachine machine = asked.machine;
  if (asked.hbm_share) share_hbm(machine, *asked.hbm_share, trace.room, experiment_.chunk_bytes);
  return machine;
}

boost::json::object ExperimentInputs::names_of(const ExperimentCell& cell,
                                               const ReadyTrace& trace) const {
  boost::json::object names = to_json(experiment_, cell);
  const ExperimentMachine& asked = experiment_.machines[cell.machine];
  if (asked.hbm_share) {
    ReplayMachine machine = asked.machine;
    names["hbm_bytes"] = share_hbm(machine, *asked.hbm_share, trace.room, experiment_.chunk_bytes);
  }
  return names;
}

boost::json::object ExperimentInputs::of(const ExperimentCell& cell,
                                         const ReadyTrace& trace) const {
  boost::json::object inputs = names_of(cell, trace);
  inputs["version"] = program_version();
  inputs["machine_sum"] = experiment_.machines[cell.machine].hbm_share
                              ? sum_of_machine(machine_of(cell, trace))
                              : machine_sums_[cell.machine];
  inputs["trace_sum"] = trace.sum;
  if (const auto library = library_sums_.find(cell.policy); library != library_sums_.end())
    inputs["policy_sum"] = library->second;
  return inputs;
}

boost::json::object ExperimentInputs::of_bound(const ExperimentCell& cell,
                                               const ReadyTrace& trace) const {
  boost::json::object inputs = of(cell, trace);
  inputs["id"] = bound_id(experiment_, cell);
  for (const char* const key : {"admission", "admission_memory", "slo_first_ms", "slo_step_ms"})
    inputs.erase(key);
  inputs.erase("policy");
  inputs.erase("policy_sum");
  return inputs;
}

std::string_view program_version() {
  return VMART_VERSION;
}

void require_same_inputs(const boost::json::object& wanted, const boost::json::object& known,
                         const std::string& file) {
  for (const auto& member : wanted) {
    const boost::json::value* const found = known.if_contains(member.key());
    if (found != nullptr && *found == member.value()) continue;
    throw Error(ErrorKind::invalid_argument, "vmart-lab run",
                fmt::format("{}: was made from other inputs: {} is {} there and {} here; choose "
                            "another folder with --out, or remove it",
                            file, std::string_view(member.key()),
                            found == nullptr ? "nothing" : boost::json::serialize(*found),
                            boost::json::serialize(member.value())));
  }
}

}  // namespace vma
