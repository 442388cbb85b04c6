#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vma {

struct RunCommand {
  std::string experiment;  ///< The experiment file.
  std::string folder;      ///< May be empty only if something is just listed.
  std::size_t jobs = 0;    ///< 0: one per processor.
  std::vector<std::string> only;
  bool list = false, list_files = false, no_report = false;
};

/// Runs the cells of an experiment that are not finished yet, then creates the report. Returns the
/// exit status: 1 if a cell failed, 130 if a signal ended the run. Throws: Error for invalid input,
/// before anything runs.
int run_experiment(const RunCommand& command);

}  // namespace vma
