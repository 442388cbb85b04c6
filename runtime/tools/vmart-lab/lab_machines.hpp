#pragma once

#include <string>
#include <vector>

namespace vma {

/// Says of each machine file, by name or path, that it is right or everything that is wrong with
/// it. Returns the exit status: 1 if anything is.
int run_machine_check(const std::vector<std::string>& files);

/// Lists the known machines, and how much of each is measured. Returns the exit status: 1 if one
/// cannot be loaded.
int run_machine_list();

/// What a replay on the machine costs, by kinds of routes. Returns the exit status. Throws: Error
/// for an unavailable machine.
int run_machine_show(const std::string& machine);

}  // namespace vma
