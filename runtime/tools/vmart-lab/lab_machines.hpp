#pragma once

#include <string>
#include <vector>

namespace vma {

/// Prints for each machine file, given by name or path, that it is valid, or all of its problems.
/// Returns the exit status: 1 if there are any.
int run_machine_check(const std::vector<std::string>& files);

/// Lists the known machines and how many of their numbers are measured. Returns the exit status: 1
/// if one cannot be loaded.
int run_machine_list();

/// Prints the costs that a replay on the machine uses, by kind of route. Returns the exit status.
/// Throws: Error if the machine is unavailable.
int run_machine_show(const std::string& machine);

}  // namespace vma
