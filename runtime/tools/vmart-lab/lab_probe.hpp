#pragma once

#include <string>

namespace vma {

struct ProbeCommand {
  std::string output;
  std::string name;    ///< Name of the machine. If empty, it is derived from its GPUs.
  std::string driver;  ///< As in `RuntimeOptions`.
};

/// Writes the machine file of this machine, or of a simulated one, and prints its progress. Returns
/// the exit status. Throws: Error if the machine cannot be described or the file cannot be written.
int run_probe(const ProbeCommand& command);

}  // namespace vma
