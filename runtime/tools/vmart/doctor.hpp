#pragma once

#include <string>

namespace vma {

struct DoctorOptions {
  std::string driver;  ///< Empty: VMART_DRIVER.
  int copy_mib = 64;   ///< Size of each timed copy, if that much is free; 0 disables timing.
  bool json = false;
};

/// Prints the properties of the machine, what an open runtime uses of it, what works badly and why,
/// and what is wrong and how to correct it. Returns the exit status: 1 if something is wrong.
/// Throws: Error without a driver.
int run_doctor(const DoctorOptions& options);

}  // namespace vma
