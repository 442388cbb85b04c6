#include "machine/machine_document.hpp"

#include "machine/machine_folder.hpp"
#include "machine/check_schema.hpp"
#include "machine/check_consistency.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

constexpr const char* call = "load_machine";
// Length of a chain of machines whose costs refer to another machine.
constexpr int costs_links_max = 4;

/// The part of an error message that follows the file's name.
std::string reason_of(const Error& error, const std::string& file) {
  const std::string_view what = error.what();
  const std::size_t name = what.find(file + ": ");
  return std::string(name == std::string_view::npos ? what : what.substr(name + file.size() + 2));
}

}  // namespace

MachineDocument MachineDocument::load(const std::string& file) {
  return load(file, costs_links_max);
}

MachineDocument MachineDocument::parse(std::string_view text, const std::string& file) {
  return read(file, costs_links_max, [&] { return JsonText(std::string(text), file, call); });
}

MachineDocument MachineDocument::load(const std::string& file, int links_left) {
  return read(file, links_left, [&] { return JsonText::load(file, call); });
}

MachineDocument MachineDocument::read(const std::string& file, int links_left,
                                      const std::function<JsonText()>& text) {
  MachineDocument document;
  document.file_ = file;
  try {
    document.text_ = text();
  } catch (const Error& error) {
    document.refuse("", reason_of(error, file));
    return document;
  }
  document.check(links_left);
  return document;
}

void MachineDocument::refuse(std::string path, std::string reason) {
  problems_.push_back({std::move(path), std::move(reason)});
}

void MachineDocument::check(int links_left) {
  SchemaCheck form = check_schema(text_->value());
  problems_ = std::move(form.problems);
  if (problems_.empty()) {
    problems_ = check_consistency(json());
    follow_costs(links_left);
  }
  if (costs_of_) {
    for (const SourcedNumber& number : costs_of_->numbers()) {
      // A source may also name the table that contains the number.
      for (std::string path = number.path; path.starts_with("costs.");
           path.resize(path.rfind('.'))) {
        form.paths.insert(path);
      }
    }
  }
  const MachineSources sources = MachineSources::read(text_->value(), form.paths, problems_);
  if (text_->value().is_object() && json().contains("sources")) {
    find_sources(form.numbers, sources);
  }
  for (MachineProblem& problem : problems_) {
    problem.line = static_cast<int>(text_->line(problem.path));
  }
  std::ranges::stable_sort(problems_, {}, &MachineProblem::line);
}

void MachineDocument::follow_costs(int links_left) {
  const json::string* name = json().at("costs").if_string();
  if (name == nullptr) return;
  if (links_left == 0) {
    return refuse("costs", "names a chain of machines that is too long");
  }
  try {
    const std::string file = find_machine_file(std::string(*name), file_);
    auto other = std::make_shared<const MachineDocument>(load(file, links_left - 1));
    if (other->problems().empty()) {
      costs_of_ = std::move(other);
    } else {
      refuse("costs", other->describe(other->problems().front()));
    }
  } catch (const Error& error) {  // There is no machine of that name.
    refuse("costs", error.what());
  }
}

bool MachineDocument::same_gpus(const MachineDocument& other) const {
  const auto names = [](const MachineDocument& document) {
    std::set<std::string> all;
    for (const json::value& gpu : document.json().at("gpus").get_array()) {
      all.emplace(gpu.at("name").get_string());
    }
    return all;
  };
  return names(*this) == names(other);
}

void MachineDocument::find_sources(const std::vector<std::string>& own,
                                   const MachineSources& sources) {
  for (const std::string& path : own) {
    if (const NumberSource* source = sources.of(path)) {
      numbers_.push_back({path, *source});
    } else {
      refuse(path, "has no source: add it, or the object that contains it, to `sources`");
    }
  }
  if (!costs_of_) return;
  if (sources.of("costs") == nullptr && !same_gpus(*costs_of_)) {
    refuse("costs", "are those of other GPUs; add them to `sources`");
  }
  for (const SourcedNumber& number : costs_of_->numbers()) {
    if (!number.path.starts_with("costs.")) continue;
    const NumberSource* source = sources.of(number.path);
    numbers_.push_back({number.path, source != nullptr ? *source : number.source});
  }
}

std::string MachineDocument::describe(const MachineProblem& problem) const {
  const std::string line = problem.line > 0 ? fmt::format("line {}: ", problem.line) : "";
  return fmt::format("{}: {}{}{}{}", file_, line, problem.path, problem.path.empty() ? "" : ": ",
                     problem.reason);
}

const json::object& MachineDocument::costs() const {
  return costs_of_ ? costs_of_->costs() : json().at("costs").get_object();
}

}  // namespace vma
