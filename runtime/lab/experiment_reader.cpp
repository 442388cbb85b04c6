#include "lab/experiment_reader.hpp"

#include "base/units.hpp"
#include "lab/experiment_policy.hpp"
#include "lab/hbm_share.hpp"
#include "lab/replay_inputs.hpp"
#include "lab/router.hpp"
#include "lab/sweep.hpp"
#include "lab/trace_formats.hpp"
#include "lab/trace_generators.hpp"
#include "machine/json_reader.hpp"
#include "machine/machine_file.hpp"
#include "placement/policy_text.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr const char* read_call = "read_experiment";
constexpr std::size_t name_bytes_max = 100;
constexpr std::size_t entries_max = 10'000;  // Of one list.
constexpr double gib_max = 64.0 * 1024 * 1024;

class Reader {
 public:
  explicit Reader(const JsonText& text) : text_(text), json_(text) {}

  Experiment read();

 private:
  /// Calls `read` with each entry's reader, or with its text where it is one.
  template <typename Text, typename Object>
  void each(std::string_view key, Text&& text, Object&& object);
  /// Runs `body`; what it throws names the place of `key`.
  template <typename Body>
  static auto at(const JsonReader& json, std::string_view key, Body&& body);

  void read_lists(Experiment& experiment);
  ExperimentMachine machine(const std::string& name, const std::string& described,
                            const PlaceCaps& caps) const;
  ExperimentMachine machine(JsonReader& json) const;
  ExperimentTrace trace(JsonReader& json) const;
  std::vector<std::string> parameters(JsonReader& json) const;
  std::string input(JsonReader& json, std::string_view key) const;
  std::string beside(const std::string& path) const;
  std::string element(std::string_view key, std::size_t index) const {
    return JsonText::join(key, index);
  }
  void only_once(std::string_view key, std::size_t index, const std::string& name);
  std::uint64_t seed(std::size_t index);

  const JsonText& text_;
  JsonReader json_;
  std::set<std::pair<std::string, std::string>> names_;  // By list.
};

template <typename Body>
auto Reader::at(const JsonReader& json, std::string_view key, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.call() == read_call) throw;  // It names its place already.
    throw Error(error.kind(), read_call, fmt::format("{}: {}", json.where(key), error.what()));
  }
}

template <typename Text, typename Object>
void Reader::each(std::string_view key, Text&& text, Object&& object) {
  const boost::json::array& list = json_.list(key);
  if (list.empty()) json_.refuse(key, "is empty");
  if (list.size() > entries_max) json_.refuse(key, "is too long");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const boost::json::string* const one = list[i].if_string()) {
      at(json_, element(key, i), [&] { text(i, std::string(*one)); });
    } else {
      JsonReader inner = json_.element(key, i);
      object(i, inner);
      inner.finish();
    }
  }
}

/// Paths are relative to the file.
std::string Reader::beside(const std::string& path) const {
  return (fs::path(text_.file()).parent_path() / path).lexically_normal().string();
}

void Reader::only_once(std::string_view key, std::size_t index, const std::string& name) {
  if (name.empty() || name.size() > name_bytes_max * (key == "policies" ? 10 : 1))
    json_.refuse(element(key, index), "has no name, or one that is too long");
  if (!names_.emplace(key, name).second)
    json_.refuse(element(key, index), fmt::format("there is another \"{}\" before it", name));
}

ExperimentMachine Reader::machine(const std::string& name, const std::string& described,
                                  const PlaceCaps& caps) const {
  const bool is_path = described.find('/') != std::string::npos || described.ends_with(".json");
  ReplayMachine machine = replay_machine(load_machine(is_path ? beside(described) : described));
  cap_places(machine, caps);
  return {name, std::move(machine)};
}

ExperimentMachine Reader::machine(JsonReader& json) const {
  const std::string name = json.text("name");
  const std::string described = json.text("machine");
  PlaceCaps caps;
  for (const auto& [key, value] :
       {std::pair("hbm_gib", &caps.hbm_gib), {"host_gib", &caps.host_gib}}) {
    if (json.has(key)) *value = json.number(key, 1.0 / 1024, gib_max);
  }
  std::optional<double> share;
  if (json.has("hbm_share")) {
    if (caps.hbm_gib) json.refuse("hbm_share", "goes not with hbm_gib");
    share = json.number("hbm_share", hbm_share_min, hbm_share_max);
  }
  ExperimentMachine one = at(json, "machine", [&] { return machine(name, described, caps); });
  one.hbm_share = share;
  return one;
}

std::vector<std::string> Reader::parameters(JsonReader& json) const {
  std::vector<std::string> values;
  if (!json.has("parameters")) return values;
  const boost::json::object* const object = json.at("parameters").if_object();
  if (object == nullptr) json.refuse("parameters", "is no object");
  for (const auto& member : *object) {
    if (!member.value().is_number())
      json.refuse(JsonText::join("parameters", std::string_view(member.key())), "is no number");
    values.push_back(
        fmt::format("{}={}", std::string_view(member.key()), sweep_text(member.value())));
  }
  return values;
}

std::string Reader::input(JsonReader& json, std::string_view key) const {
  std::string path = beside(json.text(key));
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) json.refuse(key, fmt::format("{} is no file", path));
  return path;
}

/// Looks for `name` among what there is, and at its parameters.
template <typename Maker>
void require_maker(std::span<const Maker> makers, const ExperimentTrace& trace) {
  const auto found = std::ranges::find(makers, trace.maker, &Maker::name);
  if (found != makers.end()) {
    TraceValues(found->parameters, trace.values);
    return;
  }
  std::string known;
  for (const Maker& one : makers) known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  throw Error(ErrorKind::invalid_argument, "traces",
              fmt::format("there is no \"{}\"; there are {}", trace.maker, known));
}

ExperimentTrace Reader::trace(JsonReader& json) const {
  ExperimentTrace trace;
  trace.name = json.text("name");
  trace.where = json.where("");
  if (json.has("generate")) {
    trace.kind = ExperimentTrace::Kind::generate;
    trace.maker = json.text("generate");
    trace.values = parameters(json);
    at(json, "generate", [&] { require_maker(trace_generators(), trace); });
  } else if (json.has("convert")) {
    trace.kind = ExperimentTrace::Kind::convert;
    trace.maker = json.text("convert");
    trace.input = input(json, "input");
    trace.values = parameters(json);
    at(json, "convert", [&] { require_maker(trace_formats(), trace); });
  } else if (json.has("file")) {
    trace.input = input(json, "file");
  } else {
    json.refuse("", "has none of generate, convert, file");
  }
  return trace;
}

std::uint64_t Reader::seed(std::size_t index) {
  const boost::json::value& value = json_.list("seeds")[index];
  boost::system::error_code failed;
  const auto seed = value.is_number() ? value.to_number<std::int64_t>(failed) : -1;
  // JSON's readers elsewhere keep whole numbers up to here.
  if (failed || seed < 0 || seed > std::int64_t{1} << 53)
    json_.refuse(element("seeds", index), "is no whole number from 0 to 2^53");
  return static_cast<std::uint64_t>(seed);
}

void Reader::read_lists(Experiment& experiment) {
  const auto no_object = [](std::size_t, JsonReader& json) { json.refuse("", "is no string"); };
  each(
      "machines",
      [&](std::size_t i, const std::string& text) {
        only_once("machines", i, text);
        experiment.machines.push_back(machine(text, text, {}));
      },
      [&](std::size_t i, JsonReader& json) {
        experiment.machines.push_back(machine(json));
        only_once("machines", i, experiment.machines.back().name);
      });
  each(
      "traces",
      [&](std::size_t i, const std::string&) {
        json_.refuse(element("traces", i), "is no object");
      },
      [&](std::size_t i, JsonReader& json) {
        experiment.traces.push_back(trace(json));
        only_once("traces", i, experiment.traces.back().name);
      });
  const auto add_policy = [&](std::size_t i, const std::string& text) {
    only_once("policies", i, text);
    const std::string library = split_policy_text(text).path;
    if (!library.empty()) experiment.libraries[text] = fs::absolute(beside(library)).string();
    make_policy(experiment, text);
    experiment.policies.push_back(text);
  };
  each("policies", add_policy, [&](std::size_t i, JsonReader& json) {
    for (const std::string& text : read_sweep(json)) at(json, "", [&] { add_policy(i, text); });
  });
  if (!json_.has("routers")) {
    experiment.routers = {"hash"};
    return;
  }
  each(
      "routers",
      [&](std::size_t i, const std::string& text) {
        only_once("routers", i, text);
        make_router(text);
        experiment.routers.push_back(text);
      },
      no_object);
}

Experiment Reader::read() {
  Experiment experiment;
  experiment.file = text_.file();
  experiment.name = json_.text("experiment");
  if (json_.has("about")) experiment.about = json_.text("about");
  read_lists(experiment);
  if (json_.has("pacing"))
    experiment.pacing = at(json_, "pacing", [&] { return parse_pacing(json_.text("pacing")); });
  const double chunk_mib = json_.number_or("chunk_mib", 32, 1.0 / 1024, 1024.0 * 1024);
  experiment.chunk_bytes = bytes_of(chunk_mib, static_cast<double>(MiB), "chunk_mib");
  experiment.seeds = {1};
  if (json_.has("seeds")) {
    experiment.seeds.clear();
    const std::size_t seeds = json_.list("seeds").size();
    if (seeds == 0 || seeds > entries_max) json_.refuse("seeds", "is empty or too long");
    for (std::size_t i = 0; i < seeds; ++i) {
      experiment.seeds.push_back(seed(i));
      only_once("seeds", i, std::to_string(experiment.seeds.back()));
    }
  }
  experiment.bounds = json_.flag("bounds", false);
  json_.finish();
  return experiment;
}

}  // namespace

Experiment read_experiment(const std::string& file) {
  const JsonText text = JsonText::load(file, read_call);
  Experiment experiment = Reader(text).read();
  experiment.text = text.text();
  return experiment;
}

}  // namespace vma
