#include "lab/experiments/experiment_inputs.hpp"

#include "base/check.hpp"
#include "lab/experiments/recorded_inputs.hpp"

#include <algorithm>
#include <cmath>

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

std::uint64_t hbm_of_share(double share, const TraceRoom& room, std::uint64_t chunk_bytes,
                           std::size_t gpus) {
  VMART_CHECK(share >= hbm_share_min && share <= hbm_share_max, "a share is within its bounds");
  VMART_CHECK(gpus > 0 && chunk_bytes > 0, "there are GPUs, and chunks have bytes");
  const std::uint64_t chunk = std::max<std::uint64_t>(room.chunk_max(chunk_bytes), 1);
  const double bytes = share * static_cast<double>(room.peak_bytes) / static_cast<double>(gpus);
  const double chunks = std::ceil(bytes / static_cast<double>(chunk));
  // No machine has this much; the limit avoids an overflow below.
  constexpr double bytes_max = 1e18;
  if (chunks * static_cast<double>(chunk) > bytes_max) return static_cast<std::uint64_t>(bytes_max);
  return std::max(static_cast<std::uint64_t>(chunks), hbm_chunks_min) * chunk;
}

std::uint64_t share_hbm(ReplayMachine& machine, double share, const TraceRoom& room,
                        std::uint64_t chunk_bytes) {
  const std::uint64_t bytes = hbm_of_share(share, room, chunk_bytes, machine.costs.gpus());
  std::uint64_t most = 0;
  for (PlaceState& place : machine.places) {
    if (place.place.kind != Place::Kind::gpu) continue;
    place.capacity_bytes = std::min(place.capacity_bytes, bytes);
    most = std::max(most, place.capacity_bytes);
  }
  return most;
}

}  // namespace vma
