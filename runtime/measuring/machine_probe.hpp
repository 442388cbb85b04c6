#pragma once

#include "driver/driver.hpp"
#include "machine/machine_description.hpp"
#include "machine/machine_sources.hpp"
#include "measuring/measured_calls.hpp"

#include <vma/calibration.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// Makes the machine file of the machine that a driver is of: facts from the driver, calls by
/// `ChunkProbe` and `StreamProbe`, rates by a calibration. What could not be measured is an
/// estimate, which says why. One object a run, one thread; under a minute, and nothing that is on
/// the machine is changed.
class MachineProbe {
 public:
  struct Options {
    std::string name;  ///< Empty: made from the GPUs' name and number.
    std::function<void(const std::string&)> say = [](const std::string&) {};
  };

  MachineProbe(std::unique_ptr<Driver> driver, Options options);
  ~MachineProbe();

  /// The text of the file; `parse_machine` takes it. Throws: Error{no_driver} without a GPU,
  /// {unsupported} for a machine that a file cannot describe, or where nothing could be measured.
  std::string run();

 private:
  /// Of routes that a file has one rate for.
  struct Rates {
    std::vector<double> gb_s;       // Measured.
    std::vector<double> estimated;  // As the calibration has them; why not is in `reason`.
    std::string reason;
  };

  void ask_host_nodes();
  void require_one_kind_of_link() const;
  void measure_calls();
  void calibrate();
  void take_rates(const Calibration& calibration);
  double both_ways(double peer_gb_s);
  /// Puts a route's rate where it belongs, under the path of its number.
  void add_rate(const Calibration& calibration, const std::string& path, Location from,
                Location to);
  double rate(const std::string& path, double otherwise);
  void set_rates();
  void take_calls();
  void source(const std::string& path, SourceKind kind, const std::string& from);
  std::string measured_how() const;

  std::unique_ptr<Driver> driver_;  // Null once the runtime of the calibration has it.
  const Options options_;
  const std::string description_;  // Of the driver.
  const bool simulated_;
  MachineDescription machine_;
  std::vector<SourcedNumber> sources_;
  std::map<std::string, Rates> rates_;
  std::vector<double> both_ways_;  // As a calibration has them.
  MeasuredCalls calls_;
};

}  // namespace vma
