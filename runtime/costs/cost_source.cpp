#include "costs/cost_source.hpp"

#include "base/log.hpp"
#include "costs/calibration_file.hpp"
#include "costs/cost_estimates.hpp"
#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <optional>

namespace vma {
namespace {

/// Older calibrations do not say how GPUs are linked; the topology does.
SourcedCosts of_calibration(const Topology& topology, Calibration&& calibration) {
  if (calibration.peers.kinds.empty()) calibration.peers.kinds = topology.link_kinds();
  return {std::move(calibration.costs),
          std::move(calibration.gaps),
          std::move(calibration.peers),
          CostOrigin::measured,
          calibration.file,
          std::move(calibration.estimates)};
}

/// Reads a calibration or a machine file. The error names both reasons if it is neither.
SourcedCosts of_file(Driver& driver, const Topology& topology, const std::string& file) {
  constexpr const char* name = "VMART_CALIBRATION";
  if (!std::filesystem::is_regular_file(file)) {
    throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                fmt::format("{} is \"{}\"; expected off, auto, or an existing file", name, file));
  }
  Calibration calibration;
  try {
    calibration = read_calibration(file);
  } catch (const Error& not_a_calibration) {
    try {
      const MachineDescription machine = load_machine(std::filesystem::absolute(file).string());
      return {described_costs(topology, machine),
              estimated_gaps(topology),
              described_peers(topology, machine),
              CostOrigin::described,
              file,
              {}};
    } catch (const Error& not_a_machine) {
      throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                  fmt::format("{}: neither a calibration ({}) nor a matching machine file ({})",
                              name, not_a_calibration.what(), not_a_machine.what()));
    }
  }
  if (calibration.places != topology.places()) {
    throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                fmt::format("{}: {} is a calibration of other places", name, file));
  }
  if (calibration.machine != machine_fingerprint(driver, topology)) {
    log(LogLevel::warn, "{}: {} was measured on another machine ({})", name, file,
        calibration.machine);
  }
  return of_calibration(topology, std::move(calibration));
}

}  // namespace

SourcedCosts source_costs(Driver& driver, const Topology& topology, const std::string& choice) {
  const bool automatic = choice.empty() || choice == "auto";
  if (!automatic && choice != "off") return of_file(driver, topology, choice);
  if (automatic) {
    std::optional<Calibration> stored =
        stored_calibration(calibration_folder(), machine_fingerprint(driver, topology));
    // The fingerprint covers the places, but the contents of a file may be arbitrary.
    if (stored && stored->places == topology.places())
      return of_calibration(topology, std::move(*stored));
    if (stored) log(LogLevel::warn, "the calibration {} has other places", stored->file);
  }
  // Combined rates of both directions are unknown; a simulated machine does not limit them.
  PeerLinks peers{topology.link_kinds(), {}};
  if (const MachineDescription* machine = machine_of(driver)) {
    return {described_costs(topology, *machine),
            estimated_gaps(topology),
            std::move(peers),
            CostOrigin::described,
            machine->name,
            {}};
  }
  return {estimated_costs(topology),
          estimated_gaps(topology),
          std::move(peers),
          CostOrigin::estimated,
          "link kinds",
          {}};
}

}  // namespace vma
