#pragma once

#include <vma/calibration.hpp>

#include <span>
#include <string>
#include <vector>

namespace vma {

/// How far several calibrations differ in one kind of number.
struct CalibrationSpread {
  std::string key;    ///< As in the file, such as "stall_fixed_ns".
  std::string where;  ///< The cell that differs most, such as "[0][1]"; empty for a single number.
  double least = 0, median = 0, most = 0;  ///< Of that cell.

  double share() const { return median > 0 ? (most - least) / median : 0; }
};

struct MedianCalibration {
  Calibration calibration;
  std::vector<CalibrationSpread> spreads;  ///< Each kind of number, in the order of the file.
};

/// The typical machine among several of one type: the median of each number, which a single outlier
/// does not change. A zero means that a number is unknown, so zeros count only where all are zero.
/// Throws: Error{invalid_argument} if there is none, or for calibrations of different places or
/// links.
MedianCalibration median_calibration(std::span<const Calibration> calibrations);

}  // namespace vma
