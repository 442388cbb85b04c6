#include "machine/machine_file.hpp"

#include "base/environment.hpp"
#include "base/json.hpp"
#include "base/whole_file.hpp"
#include "machine/machine_reader.hpp"
#include "machine/machine_schema.hpp"
#include "machine/shared_folders.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr const char* call = "load_machine";
// Length of a chain of machines whose costs refer to another machine.
constexpr int costs_links_max = 4;
constexpr std::string_view made_up_prefix = "test-";
constexpr std::array in_files = {SourceKind::measured, SourceKind::datasheet, SourceKind::driver,
                                 SourceKind::estimate};

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  if (const auto set = environment_text("VMART_MACHINES")) found.emplace_back(*set);
  for (fs::path& folder : shared_folders("machines")) found.push_back(std::move(folder));
  return found;
}

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

bool same_gpus(const MachineDescription& one, const MachineDescription& other) {
  const auto names = [](const MachineDescription& machine) {
    std::set<std::string> all;
    for (const GpuDescription& gpu : machine.gpus) all.insert(gpu.name);
    return all;
  };
  return names(one) == names(other);
}

MachineDescription machine_or_refuse(const MachineDocument& document) {
  const std::vector<std::string>& problems = document.problems();
  if (problems.empty()) return document.machine();
  std::string reason = problems.front();
  if (problems.size() > 1) {
    reason += fmt::format(" (and {} more: vmart-lab machine check)", problems.size() - 1);
  }
  throw Error(ErrorKind::invalid_argument, call, reason);
}

/// The sources that a file gives.
class Sources {
 public:
  /// `paths` are those that sources may be of.
  Sources(const json::object& file, const std::set<std::string>& paths, MachineProblems& problems)
      : problems_(problems) {
    const json::value& value = file.at("sources");
    if (const json::string* text = value.if_string(); text != nullptr && *text == "made up") {
      // Set even if it is not allowed, so that the numbers cause no further problems.
      all_made_up_ = true;
      if (is_test_machine(file)) return;
      refuse("sources",
             "\"made up\" is only for test machines, whose names begin with \"test-\"; other "
             "machines must state a source for each number");
    } else if (const json::object* entries = value.if_object()) {
      for (const json::key_value_pair& entry : *entries) read(entry, paths);
    } else {
      refuse("sources", "is not an object that maps paths to \"KIND: SOURCE\"");
    }
  }

  /// Null if no source is given.
  const NumberSource* of(std::string_view path) const {
    static const NumberSource made_up{SourceKind::made_up, "for tests"};
    if (all_made_up_) return &made_up;
    while (true) {
      if (const auto found = by_path_.find(path); found != by_path_.end()) return &found->second;
      const std::size_t cut = path.find_last_of(".[");
      if (cut == std::string_view::npos) return nullptr;
      path = path.substr(0, cut);
    }
  }

 private:
  void refuse(const std::string& path, std::string_view reason) {
    problems_.push_back(fmt::format("{}: {}", path, reason));
  }

  void read(const json::key_value_pair& entry, const std::set<std::string>& paths) {
    const std::string path(entry.key()), place = join_path("sources", path);
    if (!paths.contains(path)) refuse(place, "names a key that does not exist");
    const std::optional<NumberSource> source = parse_source(entry.value());
    if (!source)
      refuse(place,
             "is not \"KIND: SOURCE\" with the kind measured, datasheet, driver or estimate");
    // One that is wrong counts as given, to avoid a second problem for the same number.
    by_path_.emplace(path, source.value_or(NumberSource{}));
  }

  MachineProblems& problems_;
  bool all_made_up_ = false;
  std::map<std::string, NumberSource, std::less<>> by_path_;
};

}  // namespace

MachineDescription load_machine(const std::string& name_or_path) {
  return machine_or_refuse(MachineDocument::load(find_machine_file(name_or_path)));
}

MachineDescription parse_machine(std::string_view text, const std::string& file) {
  return machine_or_refuse(MachineDocument::parse(text, file));
}

std::vector<std::string> machine_names() {
  std::set<std::string> names;
  for (const fs::path& folder : folders()) {
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
      if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

std::string find_machine_file(const std::string& name, const std::string& referrer) {
  if (is_path(name)) return name;
  std::vector<fs::path> searched = folders();
  if (is_path(referrer)) searched.push_back(fs::path(referrer).parent_path());
  std::vector<std::string> texts;
  for (const fs::path& folder : searched) {
    const fs::path file = folder / (name + ".json");
    std::error_code failed;
    if (fs::is_regular_file(file, failed)) return file.lexically_normal().string();
    texts.push_back(folder.lexically_normal().string());
  }
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("no machine file \"{}.json\" in {}; known: {}", name,
                          fmt::join(texts, ", "), fmt::join(machine_names(), " ")));
}

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

MachineDocument MachineDocument::load(const std::string& file) {
  return load(file, costs_links_max);
}

MachineDocument MachineDocument::load(const std::string& file, int links_left) {
  if (const std::optional<std::string> text = read_file(file))
    return parse(*text, file, links_left);
  MachineDocument document(file);
  document.problems_.push_back(file + ": cannot be read");
  return document;
}

MachineDocument MachineDocument::parse(std::string_view text, const std::string& file) {
  return parse(text, file, costs_links_max);
}

MachineDocument MachineDocument::parse(std::string_view text, const std::string& file,
                                       int links_left) {
  MachineDocument document(file);
  try {
    const json::value json = parse_json(text, file, call);
    for (const std::string& problem : document.check(json, links_left))
      document.problems_.push_back(file + ": " + problem);
  } catch (const Error& error) {  // It is not JSON. The text names the call before the file.
    const std::string_view what = error.what();
    document.problems_.emplace_back(what.substr(std::min(what.find(file + ": "), what.size())));
  }
  return document;
}

MachineProblems MachineDocument::check(const json::value& json, int links_left) {
  SchemaCheck form = check_schema(json);
  std::optional<MachineDocument> other;
  if (form.problems.empty()) {
    machine_ = read_machine(json.get_object(), form.problems);
    other = costs_of(json.at("costs"), links_left, form.problems);
  }
  if (other) {
    for (const SourcedNumber& number : other->numbers_) {
      // A source may also name the table that contains the number.
      for (std::string path = number.path; path.starts_with("costs."); path.resize(path.rfind('.')))
        form.paths.insert(path);
    }
  }
  const json::object* file = json.if_object();
  if (file == nullptr || !file->contains("sources")) return form.problems;
  const Sources sources(*file, form.paths, form.problems);
  for (const std::string& path : form.numbers) {
    if (const NumberSource* source = sources.of(path)) {
      numbers_.push_back({path, *source});
    } else {
      form.problems.push_back(
          path + ": has no source: add it, or the object that contains it, to `sources`");
    }
  }
  if (other) {
    // A file with a wrong number of GPUs has none here.
    if (sources.of("costs") == nullptr && !machine_.gpus.empty() &&
        !same_gpus(machine_, other->machine_))
      form.problems.emplace_back("costs: are those of other GPUs; add them to `sources`");
    machine_.costs = other->machine_.costs;
    for (const SourcedNumber& number : other->numbers_) {
      if (!number.path.starts_with("costs.")) continue;
      const NumberSource* source = sources.of(number.path);
      numbers_.push_back({number.path, source != nullptr ? *source : number.source});
    }
  }
  return form.problems;
}

/// The machine that a file names for its costs; nothing if it has its own.
std::optional<MachineDocument> MachineDocument::costs_of(const json::value& costs, int links_left,
                                                         MachineProblems& problems) const {
  const json::string* name = costs.if_string();
  if (name == nullptr) return std::nullopt;
  if (links_left == 0) {
    problems.emplace_back("costs: names a chain of machines that is too long");
    return std::nullopt;
  }
  try {
    MachineDocument other = load(find_machine_file(std::string(*name), file_), links_left - 1);
    if (other.problems_.empty()) return other;
    problems.push_back("costs: " + other.problems_.front());
  } catch (const Error& error) {  // There is no machine of that name.
    problems.push_back(fmt::format("costs: {}", error.what()));
  }
  return std::nullopt;
}

}  // namespace vma
