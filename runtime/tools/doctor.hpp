#pragma once

#include <string>

namespace vma {

struct DoctorOptions {
  std::string driver;  ///< Empty: VMART_DRIVER.
  int copy_mib = 64;   ///< Of each timed copy; 0 times none.
};

/// Prints what the machine offers, what an open runtime takes of it, and what is off and why.
/// Returns 0. Throws: Error where a runtime cannot work here.
int run_doctor(const DoctorOptions& options);

}  // namespace vma
