#pragma once

#include <string>

namespace vma {

struct DoctorOptions {
  std::string driver;  ///< Empty: VMART_DRIVER.
  int copy_mib = 64;   ///< Of each timed copy, if that much is free; 0 times none.
  bool json = false;
};

/// Prints what the machine offers, what an open runtime takes of it, what is off and why, and what
/// is wrong and how to correct it. Returns the exit status: 1 if something is wrong. Throws: Error
/// without a driver.
int run_doctor(const DoctorOptions& options);

}  // namespace vma
