#include "lab/experiments/cell_file.hpp"

#include "base/json.hpp"
#include "lab/experiments/sweep.hpp"

#include <vma/error.hpp>

#include <boost/json/parse.hpp>
#include <fmt/format.h>

namespace vma {
namespace {

constexpr std::string_view report_key = ",\"report\":";

/// The inputs in a cell's text; nothing if the text is not a complete cell.
std::optional<boost::json::object> inputs_of(const std::string& text) {
  if (!text.ends_with('\n')) return std::nullopt;
  boost::system::error_code failed;
  const boost::json::value whole = boost::json::parse({text.data(), text.size()}, failed);
  if (failed || !whole.is_object()) return std::nullopt;
  const boost::json::object& object = whole.get_object();
  for (const char* const key : {"cell", "metrics", "report"}) {
    if (!object.contains(key) || !object.at(key).is_object()) return std::nullopt;
  }
  if (!object.contains("bound") || !object.contains("regret")) return std::nullopt;
  const boost::json::value* const inputs = object.at("report").get_object().if_contains("inputs");
  if (inputs == nullptr || !inputs->is_object()) return std::nullopt;
  return inputs->get_object();
}

}  // namespace

std::optional<CellFile> CellFile::parse(const std::string& text, const std::string& file) {
  std::optional<boost::json::object> inputs = inputs_of(text);
  // The report comes last. Nothing before it can match the key: in strings, quotes are escaped.
  const std::size_t cut = text.find(report_key);
  if (!inputs || cut == std::string::npos) return std::nullopt;
  try {
    const std::string head = text.substr(0, cut) + "}";
    return CellFile(file, parse_json(head, file, "vmart-lab run"), *std::move(inputs));
  } catch (const Error&) {
    return std::nullopt;  // The keys are in another order: not written by this program.
  }
}

std::string CellFile::number(std::string_view pointer) const {
  boost::system::error_code missing;
  const boost::json::value* const value = head_.find_pointer(pointer, missing);
  return value != nullptr && value->is_number() ? sweep_text(*value) : std::string();
}

std::vector<std::pair<std::string, std::string>> CellFile::metrics() const {
  std::vector<std::pair<std::string, std::string>> scalars;
  for (const auto& member : head_.at("metrics").as_object()) {
    if (member.value().is_structured()) continue;
    const boost::json::value& value = member.value();
    scalars.emplace_back(member.key(), value.is_number() ? sweep_text(value) : std::string());
  }
  return scalars;
}

}  // namespace vma
