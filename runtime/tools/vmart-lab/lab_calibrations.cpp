#include "tools/vmart-lab/lab_calibrations.hpp"

#include "costs/calibration_file.hpp"
#include "lab/fidelity/median_calibration.hpp"

#include <fmt/format.h>

namespace vma {

int run_calibrations(const CalibrationsCommand& command) {
  std::vector<Calibration> calibrations;
  for (const std::string& file : command.files) calibrations.push_back(read_calibration(file));
  const MedianCalibration found = median_calibration(calibrations);
  fmt::print("{}\n\n{:<26} {:>12} {:>12} {:>12} {:>8}\n", found.calibration.machine,
             "where they differ most", "least", "median", "most", "spread");
  for (const CalibrationSpread& each : found.spreads)
    fmt::print("{:<26} {:>12.4g} {:>12.4g} {:>12.4g} {:>6.1f} %\n", each.key + each.where,
               each.least, each.median, each.most, 100 * each.share());
  if (!command.output.empty()) write_calibration(command.output, found.calibration);
  return 0;
}

}  // namespace vma
