#pragma once

#include <string>
#include <vector>

namespace vma {

struct CalibrationsCommand {
  std::vector<std::string> files;
  std::string output;  ///< If empty, the median is not written.
};

/// Prints how far several machines' calibrations differ, and writes their median. Returns the exit
/// status. Throws: Error if a file is unusable, or they are of machines of different types.
int run_calibrations(const CalibrationsCommand& command);

}  // namespace vma
