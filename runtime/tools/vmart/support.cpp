#include "tools/vmart/support.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

namespace vma {
namespace {

/// "580.159.04" behind "driver " in "CUDA 13.0, driver 580.159.04"; empty if there is none.
std::string behind(std::string_view word, std::string_view text) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + word.size());
  return std::string(rest.substr(0, rest.find(',')));
}

/// 13000 of "13.0".
int cuda_number(const std::string& text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos) return 0;
  return std::atoi(text.c_str()) * 1000 + std::atoi(text.c_str() + dot + 1) * 10;
}

template <typename Name>
std::string names_in(std::span<const RecordedRuns> recorded, Name&& name) {
  std::set<std::string> names;
  for (const RecordedRuns& each : recorded) names.insert(name(each));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Why this GPU, of which there are `count`, is not one of those; empty if it is.
std::string why_not(const std::string& gpu, int count, const std::string& driver,
                    std::span<const RecordedRuns> recorded) {
  const auto of_model = [&](const RecordedRuns& each) { return each.gpu == gpu; };
  if (std::ranges::none_of(recorded, of_model)) {
    return fmt::format("no recorded run has a {} (they have {})", gpu,
                       names_in(recorded, [](const RecordedRuns& each) { return each.gpu; }));
  }
  int gpus_max = 0;
  for (const RecordedRuns& each : recorded) {
    if (of_model(each) && each.driver == driver) gpus_max = std::max(gpus_max, each.gpus);
  }
  if (gpus_max == 0) {
    return fmt::format("no recorded run on {} has {} (they have {})", gpu,
                       driver.empty() ? "a driver that says no version" : "driver " + driver,
                       names_in(recorded, [](const RecordedRuns& each) { return each.driver; }));
  }
  if (count > gpus_max) {
    return fmt::format("recorded runs have at most {} of {}", gpus_max, gpu);
  }
  return {};
}

}  // namespace

Support support_of(const SupportQuestion& machine, std::span<const RecordedRuns> recorded) {
  const std::string driver = behind("driver ", machine.driver),
                    cuda = behind("CUDA ", machine.driver);
  std::vector<std::string> reasons;
  std::set<std::string> frameworks;
  int rows = 0;
  for (const std::string& gpu : std::set(machine.gpus.begin(), machine.gpus.end())) {
    const auto count = static_cast<int>(std::ranges::count(machine.gpus, gpu));
    const std::string why = why_not(gpu, count, driver, recorded);
    if (!why.empty()) reasons.push_back(why);
    for (const RecordedRuns& each : recorded) {
      if (!why.empty() || each.gpu != gpu || each.driver != driver || each.gpus < count) continue;
      rows += each.rows;
      if (*each.frameworks != '\0') frameworks.insert(each.frameworks);
    }
  }
  if (machine.mig) reasons.push_back("no recorded run is of a MIG slice");
  if (cuda_number(cuda) > newest_known_cuda) {
    reasons.push_back(fmt::format("`vmart run` knows the calls of drivers up to CUDA {}.{}",
                                  newest_known_cuda / 1000, newest_known_cuda % 1000 / 10));
  }
  if (!reasons.empty()) return {"expected", fmt::format("{}", fmt::join(reasons, "; ")), ""};
  return {
      "tested",
      fmt::format("recorded runs have this driver and these GPUs ({} of the table's rows)", rows),
      fmt::format("{}", fmt::join(frameworks, "; "))};
}

}  // namespace vma
