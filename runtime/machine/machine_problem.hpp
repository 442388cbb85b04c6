#pragma once

#include <string>
#include <vector>

namespace vma {

/// One error in a machine file.
struct MachineProblem {
  std::string path;  ///< Path of the key; empty for the whole file.
  std::string reason;
  int line = 0;  ///< 0 if unknown.
};

using MachineProblems = std::vector<MachineProblem>;

}  // namespace vma
