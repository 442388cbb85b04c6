#include "machine/machine_sources.hpp"

#include "machine/json_text.hpp"

#include <boost/json/object.hpp>
#include <fmt/format.h>

#include <array>
#include <optional>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::string_view made_up_prefix = "test-";
constexpr std::array in_files = {SourceKind::measured, SourceKind::datasheet, SourceKind::driver,
                                 SourceKind::estimate};

/// Parses "KIND: where from". Returns nothing for any other value.
std::optional<NumberSource> parse_source(const json::value& value) {
  const json::string* text = value.if_string();
  if (text == nullptr) return std::nullopt;
  for (const SourceKind kind : in_files) {
    const std::string start = fmt::format("{}: ", to_string(kind));
    if (text->starts_with(start) && text->size() > start.size()) {
      return NumberSource{kind, std::string(text->subview(start.size()))};
    }
  }
  return std::nullopt;
}

bool is_test_machine(const json::object& file) {
  const json::value* name = file.if_contains("name");
  return name != nullptr && name->is_string() && name->get_string().starts_with(made_up_prefix);
}

}  // namespace

std::string_view to_string(SourceKind kind) {
  switch (kind) {
    case SourceKind::measured: return "measured";
    case SourceKind::datasheet: return "datasheet";
    case SourceKind::driver: return "driver";
    case SourceKind::estimate: return "estimate";
    case SourceKind::made_up: return "made up";
  }
  return "";
}

MachineSources MachineSources::read(const json::value& file, const std::set<std::string>& paths,
                                    MachineProblems& problems) {
  MachineSources sources;
  const json::object* whole = file.if_object();
  const json::value* value = whole == nullptr ? nullptr : whole->if_contains("sources");
  if (value == nullptr) return sources;
  if (const json::string* text = value->if_string(); text != nullptr && *text == "made up") {
    // Set even if it is not allowed, so that the numbers cause no further problems.
    sources.all_made_up_ = true;
    if (!is_test_machine(*whole)) {
      problems.push_back({"sources",
                          "\"made up\" is only for test machines, whose names begin with "
                          "\"test-\"; other machines must state a source for each number"});
    }
    return sources;
  }
  const json::object* entries = value->if_object();
  if (entries == nullptr) {
    problems.push_back({"sources", "is not an object that maps paths to \"KIND: SOURCE\""});
    return sources;
  }
  for (const json::key_value_pair& entry : *entries) {
    const std::string path(entry.key()), place = JsonText::join("sources", path);
    if (!paths.contains(path)) problems.push_back({place, "names a key that does not exist"});
    if (std::optional<NumberSource> source = parse_source(entry.value())) {
      sources.by_path_.emplace(path, std::move(*source));
    } else {
      problems.push_back(
          {place, "is not \"KIND: SOURCE\" with the kind measured, datasheet, driver or estimate"});
      // Counts as given, to avoid a second problem for the same number.
      sources.by_path_.emplace(path, NumberSource{});
    }
  }
  return sources;
}

const NumberSource* MachineSources::of(std::string_view path) const {
  static const NumberSource made_up{SourceKind::made_up, "for tests"};
  if (all_made_up_) return &made_up;
  while (true) {
    if (const auto found = by_path_.find(path); found != by_path_.end()) return &found->second;
    const std::size_t cut = path.find_last_of(".[");
    if (cut == std::string_view::npos) return nullptr;
    path = path.substr(0, cut);
  }
}

}  // namespace vma
