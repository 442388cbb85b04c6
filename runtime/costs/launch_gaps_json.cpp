#include "costs/launch_gaps_json.hpp"

#include "costs/gpu_numbers_json.hpp"

#include <boost/json/array.hpp>

#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

constexpr const char* kernel_key = "kernel_gap_ns";
constexpr const char* round_key = "round_gap_ns";
constexpr double gap_ns_max = 1e12;

json::array written(const std::vector<Time>& gaps) {
  json::array times;
  for (const Time gap : gaps) times.emplace_back(gap.count());
  return times;
}

std::vector<Time> read(JsonReader& json, const char* key, std::size_t gpus) {
  std::vector<Time> gaps;
  for (const double ns : read_gpu_numbers(json, key, gpus, gap_ns_max))
    gaps.emplace_back(static_cast<Time::rep>(ns));
  return gaps;
}

}  // namespace

void write_gaps(json::object& json, const LaunchGaps& gaps) {
  json[kernel_key] = written(gaps.kernel);
  json[round_key] = written(gaps.round);
}

LaunchGaps read_gaps(JsonReader& json, std::size_t gpus) {
  return {read(json, kernel_key, gpus), read(json, round_key, gpus)};
}

}  // namespace vma
