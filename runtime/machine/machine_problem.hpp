#pragma once

#include <string>
#include <vector>

namespace vma {

/// One thing that is wrong with a machine file.
struct MachineProblem {
  std::string path;  ///< Of the key; empty: the whole file.
  std::string reason;
  int line = 0;  ///< 0: not known.
};

using MachineProblems = std::vector<MachineProblem>;

}  // namespace vma
