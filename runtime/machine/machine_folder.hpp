#pragma once

#include <string>
#include <vector>

namespace vma {

/// The path of a machine file: `name` itself if it is a path, otherwise NAME.json in one of the
/// folders that `load_machine` searches, the one beside `referrer` (a path, may be empty) last.
/// Throws: Error{invalid_argument} that lists the folders.
std::string find_machine_file(const std::string& name, const std::string& referrer);

/// Names of all machine files in those folders, sorted, without duplicates.
std::vector<std::string> list_machine_files();

}  // namespace vma
