#pragma once

#include <optional>
#include <string>
#include <vector>

namespace vma {

struct CalibrateCommand {
  std::string driver;
  bool show = false;  ///< Prints the stored calibration without measuring.
  bool json = false;
  bool keep = true;
  bool stops = false;  ///< Also measures live moves and their stalls while GPUs read.
  int mib = 0;
  double seconds = 2;  ///< Routes not measured within this time stay estimates.
};

/// Measures the costs of the machine's memory, or shows a stored calibration, and prints it.
/// Returns the exit status: 1 if there is nothing stored to show.
int run_calibrate(const CalibrateCommand& command);

struct DemoOptions {
  std::string driver;  ///< Empty: VMART_DRIVER.
  int mib = 64;
  bool json = false;
};

/// Allocates memory, moves its middle to another place, and prints its place before and after.
/// Returns 0. Throws: Error.
int run_demo(const DemoOptions& options);

struct DoctorOptions {
  std::string driver;  ///< Empty: VMART_DRIVER.
  int copy_mib = 64;   ///< Size of each timed copy, if that much is free; 0 disables timing.
  bool json = false;
};

/// Prints the properties of the machine, what an open runtime uses of it, what works badly and why,
/// and what is wrong and how to correct it. Returns the exit status: 1 if something is wrong.
/// Throws: Error without a driver.
int run_doctor(const DoctorOptions& options);

struct RunOptions {
  std::vector<std::string> program;  ///< With its arguments.
  std::string policy;                ///< Empty: VMART_POLICY.
  std::string smallest;  ///< Smallest allocation that can move, with a unit; empty: 2 MiB.
  /// Parts of the names of libraries whose memory stays the driver's; empty: VMART_RUN_EXCLUDE.
  std::optional<std::string> excluded;
  bool pools = false;       ///< Whether memory that it allocates in the order of streams can move.
  std::optional<bool> vmm;  ///< Whether memory that it maps itself can move; empty: VMART_RUN_VMM.
  std::string capacity;  ///< "gpu0=60GiB,...": most HBM that movable memory has; empty: no limit.
  bool overcommit = false;  ///< What finds no room spills to other places.
  bool sites = false;       ///< Large allocations remember where the program made them.
  /// How the hooks get between it and the driver: "preload" or "shim".
  std::string way = "preload";
  /// Whether programs that it starts run like it; empty: VMART_RUN_CHILDREN.
  std::optional<bool> children;
};

/// Becomes the program, with the library before the driver's that makes its memory movable. Returns
/// 127 if there is no such program, and 126 if it cannot be run. Throws: Error for an invalid
/// option or without the library.
int run_program(const RunOptions& options);

struct SimulateOptions {
  std::vector<std::string> program;  ///< With its arguments.
  std::string machine;               ///< A name or a file; empty: SIMCUDA_MACHINE.
  std::vector<std::string> kernels;  ///< Shared objects, beside those in SIMCUDA_KERNELS.
};

/// Becomes the program, with simcuda in the place of the driver's library. Returns as
/// `run_program`. Throws: Error for an invalid option or without simcuda.
int simulate_program(const SimulateOptions& options);

}  // namespace vma
