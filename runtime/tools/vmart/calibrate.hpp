#pragma once

#include <string>

namespace vma {

struct CalibrateCommand {
  std::string driver;
  bool show = false;  ///< Shows the stored one; measures nothing.
  bool json = false;
  bool keep = true;
  bool stops = false;  ///< Measures moves and stalls of live moves beside reading GPUs.
  int mib = 0;
  double seconds = 2;  ///< Routes not measured by then stay estimates.
};

/// Measures the costs of the machine's memory, or shows a stored calibration, and prints it.
/// Returns the exit status: 1 if there is nothing stored to show.
int run_calibrate(const CalibrateCommand& command);

}  // namespace vma
