#pragma once

#include <string>

namespace vma {

struct WhereOptions {
  std::string driver;  ///< Empty: VMART_DRIVER.
  int mib = 64;
};

/// Makes an allocation, moves its middle to another place, and prints where it lies before and
/// after. Returns 0. Throws: Error.
int run_where(const WhereOptions& options);

}  // namespace vma
