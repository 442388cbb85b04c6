#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vma {

struct RunCommand {
  std::string experiment;  ///< Its file.
  std::string folder;      ///< Not empty, unless something is listed only.
  std::size_t jobs = 0;    ///< 0: as many as there are processors.
  std::vector<std::string> only;
  bool list = false, list_files = false, no_report = false;
};

/// Runs an experiment's cells that are not finished yet, and has the report made. Returns the exit
/// status: 1 if a cell failed, 130 if a signal ended it. Throws: Error, before anything runs for
/// all that is wrong with what was given.
int run_experiment(const RunCommand& command);

}  // namespace vma
