#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "runtime/runtime_parts.hpp"
#include "tools/vmart/support.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Findings of `vmart doctor` beyond those that driver and topology report.
struct DoctorFindings {
  struct Hbm {  ///< Of one GPU, in bytes; negative if other programs release some.
    DeviceId device;
    double idle_bytes = 0, copies_bytes = 0;
    double own_context_bytes = 0;  ///< Like `copies_bytes`, with a context of the runtime's own.
  };

  std::optional<Support> support;  ///< None for simulated machines.
  std::uint64_t copy_bytes = 0;    ///< Size of each timed copy; 0 if none was timed.
  std::map<std::pair<Place, Place>, double> gb_s;  ///< From, to.
  std::vector<Hbm> hbm;                            ///< Empty if no runtime could be opened.
  /// How long it takes to create a context of the runtime's own, at worst; none if not measured.
  std::optional<std::chrono::nanoseconds> own_context_time;
  /// By GPU; empty if no runtime could be opened.
  std::vector<std::pair<DeviceId, SuspensionFinding>> suspensions;
  std::vector<std::string> off;    ///< Works less well than it could, and why.
  std::vector<std::string> wrong;  ///< Does not work, and how to correct it.
};

// Each prints one section as text.

void print_driver(Driver& driver);
void print_support(const std::optional<Support>& support);
void print_devices(const Topology& topology);
void print_peers(const Topology& topology);
void print_speeds(const DoctorFindings& findings, const Topology& topology, bool simulated);
void print_hbm(const DoctorFindings& findings);
/// Where copies run, and what it costs where they cannot run in contexts of the program.
void print_copy_contexts(const DoctorFindings& findings, bool own_contexts);
/// Whether moves can stop the program by suspending its work, what that costs, or why not.
void print_suspensions(const DoctorFindings& findings);
/// Prints `off` and `wrong`.
void print_verdict(const DoctorFindings& findings);

/// Prints everything as one JSON object.
void print_doctor_json(Driver& driver, const Topology& topology, const DoctorFindings& findings);

}  // namespace vma
