#include "lab/fidelity/median_calibration.hpp"

#include "base/vectors.hpp"
#include "costs/calibration_file.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vma {
namespace {

namespace json = boost::json;

[[noreturn]] void refuse_median(const std::string& reason) {
  throw Error(ErrorKind::invalid_argument, "median_calibration", reason);
}

/// Merges the numbers of one key of several calibration files, in whatever lists they are.
class KeyMerger {
 public:
  explicit KeyMerger(std::string key) { spread_.key = std::move(key); }

  json::value merge(const std::vector<json::value>& values, const std::string& where) {
    if (values.front().is_array()) return merge_lists(values, where);
    if (values.front().is_number()) return merge_numbers(values, where);
    if (std::ranges::any_of(values, [&](const json::value& each) { return each != values[0]; }))
      refuse_median(fmt::format("the calibrations differ in {}{}", spread_.key, where));
    return values.front();
  }
  bool has_numbers() const noexcept { return has_numbers_; }
  const CalibrationSpread& spread() const noexcept { return spread_; }

 private:
  /// Lists may be empty in older files, which lack them.
  json::value merge_lists(std::vector<json::value> values, const std::string& where) {
    const auto is_empty = [](const json::value& each) { return each.get_array().empty(); };
    if (std::ranges::all_of(values, is_empty)) return json::array();
    std::erase_if(values, is_empty);
    json::array merged;
    for (std::size_t i = 0; i < values.front().get_array().size(); ++i) {
      std::vector<json::value> cells;
      for (const json::value& each : values) {
        if (each.get_array().size() != values.front().get_array().size())
          refuse_median(
              fmt::format("the calibrations differ in the length of {}{}", spread_.key, where));
        cells.push_back(each.get_array()[i]);
      }
      merged.push_back(merge(cells, fmt::format("{}[{}]", where, i)));
    }
    return merged;
  }
  json::value merge_numbers(const std::vector<json::value>& values, const std::string& where) {
    std::vector<double> numbers;
    for (const json::value& each : values) numbers.push_back(each.to_number<double>());
    if (std::ranges::any_of(numbers, [](double number) { return number != 0; }))
      std::erase(numbers, 0);
    const auto [least, most] = std::ranges::minmax(numbers);
    const CalibrationSpread found{spread_.key, where, least, median(numbers), most};
    if (!has_numbers_ || found.share() > spread_.share()) spread_ = found;
    has_numbers_ = true;
    if (values.front().is_double()) return found.median;
    return static_cast<std::int64_t>(found.median);
  }

  CalibrationSpread spread_;
  bool has_numbers_ = false;
};

/// Which numbers of any of them are estimates.
std::vector<std::string> estimates_of(std::span<const Calibration> calibrations) {
  std::set<std::string> texts;
  for (const Calibration& each : calibrations)
    texts.insert(each.estimates.begin(), each.estimates.end());
  return {texts.begin(), texts.end()};
}

}  // namespace

MedianCalibration median_calibration(std::span<const Calibration> calibrations) {
  if (calibrations.empty()) refuse_median("there is no calibration");
  std::vector<json::object> files;
  std::string date;
  for (const Calibration& each : calibrations) date = std::max(date, each.date);
  for (Calibration each : calibrations) {
    each.machine = fmt::format("median of {}: {}", calibrations.size(), calibrations[0].machine);
    each.date = date;
    each.estimates.clear();
    files.push_back(json::parse(to_json(each)).get_object());
  }
  MedianCalibration result;
  json::object merged;
  for (const auto& [key, value] : files.front()) {
    std::vector<json::value> values;
    for (const json::object& file : files) values.push_back(file.at(key));
    KeyMerger merger(key);
    merged[key] = merger.merge(values, "");
    if (merger.has_numbers() && key != "version") result.spreads.push_back(merger.spread());
  }
  result.calibration = parse_calibration(json::serialize(merged), "the median");
  result.calibration.estimates = estimates_of(calibrations);
  result.calibration.file.clear();
  return result;
}

}  // namespace vma
