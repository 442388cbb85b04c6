#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// What a program allocated and freed, in order; `record.py` makes such files. Lines of text:
///
///     held BYTES             the most that the program's own allocator held
///     a ID BYTES STREAM      a block is allocated; streams count from 0
///     f ID STREAM            it is freed
///     # ...                  says where the trace is from
struct AllocationTrace {
  struct Step {
    std::uint64_t block = 0;
    std::uint64_t bytes = 0;  ///< 0: freed.
    int stream = 0;
  };

  std::string name;
  std::vector<Step> steps;
  std::uint64_t blocks = 0;            ///< Ids are below this.
  int streams = 1;                     ///< Streams are below this.
  std::uint64_t asked_peak_bytes = 0;  ///< The most that is allocated at once.
  std::uint64_t held_peak_bytes = 0;   ///< 0: unknown.
};

/// Throws: std::runtime_error with file and line for what is no such trace.
AllocationTrace load_allocations(const std::string& file);
/// All files *.txt in the folder, by name.
std::vector<AllocationTrace> load_all_allocations(const std::string& folder);

}  // namespace vma
