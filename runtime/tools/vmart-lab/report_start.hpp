#pragma once

#include <string>

namespace vma {

/// Has Python make the report of a folder of results. Where the module or what it needs cannot be
/// found, it says so in a line, which is no failure. Returns false if the report was begun and
/// failed. Blocks: until it has ended.
bool start_report(const std::string& folder);

}  // namespace vma
