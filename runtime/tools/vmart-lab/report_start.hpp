#pragma once

#include <string>

namespace vma {

/// Starts Python to create the report of a folder of results. If the module or a library that it
/// needs is missing, prints a line that says so and does not count as a failure. Returns false if
/// the report was started and failed. Blocks: until it has ended.
bool start_report(const std::string& folder);

}  // namespace vma
