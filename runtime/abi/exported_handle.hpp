#pragma once

#include <vma/vma.hpp>
#include <vma/vmart.h>

#include <chrono>
#include <cstdint>

struct vmart_exported {
  vma::ExportedAllocation exported;
};

namespace vma {

/// Zero: as long as imports wait unless told otherwise.
inline ImportOptions import_within(std::int64_t limit_ns) {
  ImportOptions options;
  if (limit_ns == 0) return options;
  options.limit = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(limit_ns));
  return options;
}

}  // namespace vma
