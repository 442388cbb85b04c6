#pragma once

#include "driver/driver.hpp"
#include "machine/machine_description.hpp"
#include "machine/machine_file.hpp"
#include "measuring/measured_calls.hpp"

#include <vma/calibration.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// Creates the machine file of a driver's machine: facts from the driver, costs of calls from
/// `ChunkProbe` and `StreamProbe`, rates from a calibration. Values that could not be measured are
/// estimates, with the reason. One object per run, one thread. Takes less than a minute and leaves
/// the machine unchanged.
class MachineProbe {
 public:
  struct Options {
    std::string name;  ///< Empty: derived from the name and number of the GPUs.
    std::function<void(const std::string&)> say = [](const std::string&) {};
  };

  MachineProbe(std::unique_ptr<Driver> driver, Options options);
  ~MachineProbe();

  /// Returns the text of the file, for `parse_machine`. Throws: Error{no_driver} without a GPU,
  /// {unsupported} if a file cannot describe the machine or nothing could be measured.
  std::string run();

 private:
  /// Rates of the routes that share one number in a file.
  struct Rates {
    std::vector<double> gb_s;       // Measured.
    std::vector<double> estimated;  // From the calibration, for the reason in `reason`.
    std::string reason;
  };

  void ask_host_nodes();
  void require_one_kind_of_link() const;
  void measure_calls();
  void calibrate();
  void take_rates(const Calibration& calibration);
  double both_ways(double peer_gb_s);
  /// Adds a route's rate under the path of its number in the file.
  void add_rate(const Calibration& calibration, const std::string& path, Place from, Place to);
  double rate(const std::string& path, double otherwise);
  void set_rates();
  void take_calls();
  void source(const std::string& path, SourceKind kind, const std::string& from);
  std::string measured_how() const;

  std::unique_ptr<Driver> driver_;  // Null once the calibration's runtime owns it.
  const Options options_;
  const std::string description_;  // Description of the driver.
  const bool simulated_;
  MachineDescription machine_;
  std::vector<SourcedNumber> sources_;
  std::map<std::string, Rates> rates_;
  std::vector<double> both_ways_;  // From the calibration.
  MeasuredCalls calls_;
};

}  // namespace vma
