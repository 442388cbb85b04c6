#pragma once

#include <string>

namespace vma {

struct DemoOptions {
  std::string driver;  ///< Empty: VMART_DRIVER.
  int mib = 64;
  bool json = false;
};

/// Allocates memory, moves its middle to another place, and prints its location before and after.
/// Returns 0. Throws: Error.
int run_demo(const DemoOptions& options);

}  // namespace vma
