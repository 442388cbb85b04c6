#pragma once

#include <string>

namespace vma {

struct CalibrateCommand {
  std::string driver;
  bool show = false;  ///< What is stored; measures nothing.
  bool json = false;
  bool keep = true;
  bool stops = false;  ///< Moves and stalls are those of live moves beside reading GPUs.
  int mib = 0;
  double seconds = 2;  ///< Routes that come later stay estimates.
};

/// Measures what the machine's memory costs, or shows what was measured before, and prints it.
/// Returns the exit status: 1 where nothing is stored to be shown.
int run_calibrate(const CalibrateCommand& command);

}  // namespace vma
