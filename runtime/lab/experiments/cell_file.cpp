#include "lab/experiments/cell_file.hpp"

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
    return CellFile(JsonText(text.substr(0, cut) + "}", file, "vmart-lab run"), *std::move(inputs));
  } catch (const Error&) {
    return std::nullopt;  // The keys are in another order: not written by this program.
  }
}

std::string CellFile::number(std::string_view path) const {
  const std::string_view written = head_.written(path);
  const bool whole = written.find_first_not_of("-0123456789") == std::string_view::npos;
  if (whole) return std::string(written);
  const std::optional<double> number = head_.number(path);
  return number ? fmt::format("{}", *number) : std::string();
}

std::vector<std::pair<std::string, std::string>> CellFile::metrics() const {
  std::vector<std::pair<std::string, std::string>> scalars;
  for (const auto& member : head_.value().at("metrics").as_object()) {
    if (member.value().is_structured()) continue;
    const std::string name(member.key());
    scalars.emplace_back(name, number(JsonText::join("metrics", name)));
  }
  return scalars;
}

}  // namespace vma
