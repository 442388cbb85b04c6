#pragma once

#include <string>

namespace vma {

struct CalibrateCommand {
  std::string driver;
  bool show = false;  ///< Prints the stored calibration without measuring.
  bool json = false;
  bool keep = true;
  bool stops = false;  ///< Also measures live moves and their stalls while GPUs read.
  int mib = 0;
  double seconds = 2;  ///< Routes not measured within this time stay estimates.
};

/// Measures the costs of the machine's memory, or shows a stored calibration, and prints it.
/// Returns the exit status: 1 if there is nothing stored to show.
int run_calibrate(const CalibrateCommand& command);

}  // namespace vma
