#pragma once

#include <string>

namespace vma {

struct ProbeCommand {
  std::string output;
  std::string name;    ///< Of the machine; empty: made from its GPUs.
  std::string driver;  ///< As `RuntimeOptions` has it.
};

/// Writes the machine file of the machine that it runs on, or of a simulated one, and says what it
/// does meanwhile. Returns the exit status. Throws: Error for a machine that cannot be described,
/// or a file that cannot be written.
int run_probe(const ProbeCommand& command);

}  // namespace vma
