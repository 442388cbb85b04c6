#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// What `vmart doctor` found out beyond what driver and topology report.
struct DoctorFindings {
  struct Hbm {  ///< Of one GPU, in bytes; negative if other programs release some.
    DeviceId device;
    double idle_bytes = 0, copies_bytes = 0;
  };

  std::uint64_t copy_bytes = 0;                          ///< Of each timed copy; 0: none was timed.
  std::map<std::pair<Location, Location>, double> gb_s;  ///< From, to.
  std::vector<Hbm> hbm;                                  ///< Empty if no runtime could be opened.
  std::vector<std::string> off;    ///< Works less well than possible, and why.
  std::vector<std::string> wrong;  ///< Does not work, and what to do.
};

// Each prints one section for people.

void print_driver(Driver& driver);
void print_devices(const Topology& topology);
void print_peers(const Topology& topology);
void print_speeds(const DoctorFindings& findings, const Topology& topology, bool simulated);
void print_hbm(const DoctorFindings& findings);
/// What is off, and what is wrong.
void print_verdict(const DoctorFindings& findings);

/// Everything as one JSON object.
void print_doctor_json(Driver& driver, const Topology& topology, const DoctorFindings& findings);

}  // namespace vma
