#include "costs/gpu_numbers_json.hpp"

#include <fmt/format.h>

namespace vma {

std::vector<double> read_gpu_numbers(JsonReader& json, std::string_view key, std::size_t gpus,
                                     double most) {
  std::vector<double> numbers;
  if (!json.has(key)) return numbers;
  for (const boost::json::value& cell : json.list(key)) {
    const double number = cell.is_number() ? cell.to_number<double>() : -1;
    if (!(number >= 0 && number <= most))
      json.refuse(key, fmt::format("[{}] is not a number from 0 to {}", numbers.size(), most));
    numbers.push_back(number);
  }
  if (!numbers.empty() && numbers.size() != gpus)
    json.refuse(key, "does not have a number for each GPU");
  return numbers;
}

}  // namespace vma
