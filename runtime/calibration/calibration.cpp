// `Runtime::calibrate`: measures, and stores the result.
#include <vma/vma.hpp>

#include "base/log.hpp"
#include "calibration/calibrator.hpp"
#include "costs/calibration_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace vma::inline v1 {

Calibration Runtime::calibrate(const CalibrateOptions& options) {
  const RuntimeParts::Entry entry(*parts_, "vma::calibrate");
  Machinery& machinery = *parts_->machinery;
  Calibration calibration = Calibrator(*this, *parts_->driver, machinery, options).run();
  calibration.machine = machine_fingerprint(*parts_->driver, machinery.topology);
  calibration.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  if (!options.store) return calibration;
  const std::string folder = calibration_folder();
  if (folder.empty()) {
    log(LogLevel::warn, "the calibration is not stored: set VMART_CACHE_DIR or HOME");
    return calibration;
  }
  const std::string file = folder + "/" + calibration_file_name(calibration.machine);
  try {
    write_calibration(file, calibration);
    calibration.file = file;
  } catch (const Error& error) {
    log(LogLevel::warn, "the calibration is not stored: {}", error.what());
  }
  return calibration;
}

Calibration calibrate(const CalibrateOptions& options) {
  return runtime().calibrate(options);
}

}  // namespace vma::inline v1
