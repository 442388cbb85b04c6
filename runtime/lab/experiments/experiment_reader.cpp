#include "lab/experiments/experiment_reader.hpp"

#include "base/json.hpp"
#include "base/units.hpp"
#include "base/whole_file.hpp"
#include "lab/experiments/experiment.hpp"
#include "lab/experiments/experiment_inputs.hpp"
#include "lab/experiments/sweep.hpp"
#include "lab/generate/trace_generators.hpp"
#include "lab/import/trace_formats.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "lab/routing/router.hpp"
#include "machine/machine_file.hpp"
#include "placement/policies/policy_text.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr const char* read_call = "read_experiment";
constexpr std::size_t name_bytes_max = 100;
constexpr std::size_t entries_max = 10'000;  // Per list.
constexpr double gib_max = 64.0 * 1024 * 1024;

using Keys = std::span<const std::string_view>;
constexpr std::string_view experiment_keys[] = {
    "experiment",   "about",      "machines", "traces", "policies",  "routers",
    "pacing",       "chunk_mib",  "seeds",    "bounds", "admission", "admission_memory",
    "slo_first_ms", "slo_step_ms"};
constexpr std::string_view machine_keys[] = {"name", "machine", "hbm_gib", "host_gib", "hbm_share"};
constexpr std::string_view trace_keys[] = {"name", "kind",  "generate",  "convert",
                                           "file", "input", "parameters"};
constexpr std::string_view policy_keys[] = {"policy", "sweep"};

/// All problems found in a file.
class Problems {
 public:
  /// Runs `body`, and keeps an Error that it throws.
  template <typename Body>
  void collect(Body&& body) {
    try {
      body();
    } catch (const Error& error) {
      const std::string_view text = error.what();
      const std::string ours = fmt::format("{}: {}: ", read_call, to_string(error.kind()));
      add(std::string(text.starts_with(ours) ? text.substr(ours.size()) : text));
    }
  }
  void add(std::string problem) { found_.push_back(std::move(problem)); }
  std::size_t count() const { return found_.size(); }
  /// Throws: Error{invalid_argument} with all problems, if there are any.
  void require_none() const;

 private:
  std::vector<std::string> found_;
};

void Problems::require_none() const {
  constexpr std::size_t shown_max = 50;
  if (found_.empty()) return;
  if (found_.size() == 1) throw Error(ErrorKind::invalid_argument, read_call, found_.front());
  std::string text = fmt::format("{} problems", found_.size());
  for (std::size_t i = 0; i < std::min(found_.size(), shown_max); ++i) text += "\n  " + found_[i];
  if (found_.size() > shown_max) text += fmt::format("\n  and {} more", found_.size() - shown_max);
  throw Error(ErrorKind::invalid_argument, read_call, text);
}

/// One object of the file. Reads each field, whether or not others are wrong.
class Fields {
 public:
  Fields(Problems& problems, JsonReader& json, Keys known)
      : problems_(problems), json_(json), before_(problems.count()) {
    for (UnknownKey& key : json.unknown_keys(known)) {
      problems_.add(std::move(key.problem));
      misspelt_.insert(key.meant);
    }
  }

  /// Skips a field whose key is misspelt: that was reported already, so it is not missing.
  template <typename Body>
  void read(std::string_view key, Body&& body) {
    if (!is_misspelt(key)) problems_.collect(body);
  }
  bool is_misspelt(std::string_view key) const { return misspelt_.contains(key); }
  bool fine() const { return problems_.count() == before_; }
  /// Rejects keys that are known but have no effect in this combination.
  void finish() {
    if (fine()) problems_.collect([&] { json_.finish(); });
  }

 private:
  Problems& problems_;
  JsonReader& json_;
  const std::size_t before_;
  std::set<std::string_view> misspelt_;
};

class Reader {
 public:
  Reader(const boost::json::value& value, const std::string& file)
      : file_(file), json_(value, file, "", read_call) {}

  Experiment read();

 private:
  /// Calls `text` or `object` with each entry, and collects the errors of each separately.
  template <typename Text, typename Object>
  void each(std::string_view key, Text&& text, Object&& object);
  /// Runs `body`; errors that it throws name the position of `key`.
  template <typename Body>
  static auto at(const JsonReader& json, std::string_view key, Body&& body);

  void read_machines(Experiment& experiment);
  void read_traces(Experiment& experiment);
  void read_policies(Experiment& experiment);
  void read_routers(Experiment& experiment);
  void read_seeds(Experiment& experiment);
  void read_requests(Fields& fields, Experiment& experiment);
  ExperimentMachine machine(const std::string& name, const std::string& described,
                            const PlaceCaps& caps) const;
  void add_machine(std::size_t index, JsonReader& json, Experiment& experiment);
  ExperimentTrace trace(JsonReader& json);
  static ExperimentTrace::Origin origin(JsonReader& json, const ExperimentTrace& trace);
  void read_recipe(JsonReader& json, Fields& fields, ExperimentTrace& trace);
  std::vector<std::string> parameters(JsonReader& json) const;
  std::string input(JsonReader& json, std::string_view key) const;
  std::string beside(const std::string& path) const;
  std::string element(std::string_view key, std::size_t index) const {
    return join_path(key, index);
  }
  void only_once(std::string_view key, std::size_t index, const std::string& name);
  std::uint64_t seed(std::size_t index);

  const std::string& file_;
  JsonReader json_;
  Problems problems_;
  std::set<std::pair<std::string, std::string>> names_;  // Keyed by list.
};

template <typename Body>
auto Reader::at(const JsonReader& json, std::string_view key, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.call() == read_call) throw;  // It already names its position.
    throw Error(error.kind(), read_call, fmt::format("{}: {}", json.where(key), error.what()));
  }
}

template <typename Text, typename Object>
void Reader::each(std::string_view key, Text&& text, Object&& object) {
  const boost::json::array& list = json_.list(key);
  if (list.empty()) json_.refuse(key, "is empty");
  if (list.size() > entries_max) json_.refuse(key, "is too long");
  for (std::size_t i = 0; i < list.size(); ++i) {
    problems_.collect([&] {
      if (const boost::json::string* const one = list[i].if_string()) {
        at(json_, element(key, i), [&] { text(i, std::string(*one)); });
      } else {
        JsonReader inner = json_.element(key, i);
        object(i, inner);
      }
    });
  }
}

/// Resolves a path relative to the experiment's file.
std::string Reader::beside(const std::string& path) const {
  return (fs::path(file_).parent_path() / path).lexically_normal().string();
}

void Reader::only_once(std::string_view key, std::size_t index, const std::string& name) {
  if (name.empty() || name.size() > name_bytes_max * (key == "policies" ? 10 : 1))
    json_.refuse(element(key, index), "has no name or one that is too long");
  if (!names_.emplace(key, name).second)
    json_.refuse(element(key, index), fmt::format("\"{}\" was already used above", name));
}

ExperimentMachine Reader::machine(const std::string& name, const std::string& described,
                                  const PlaceCaps& caps) const {
  const bool is_path = described.find('/') != std::string::npos || described.ends_with(".json");
  ReplayMachine machine = replay_machine(load_machine(is_path ? beside(described) : described));
  cap_places(machine, caps);
  return {name, std::move(machine)};
}

void Reader::add_machine(std::size_t index, JsonReader& json, Experiment& experiment) {
  Fields fields(problems_, json, machine_keys);
  std::string name, described;
  fields.read("name", [&] { name = json.text("name"); });
  fields.read("machine", [&] { described = json.text("machine"); });
  PlaceCaps caps;
  for (const auto& [key, value] :
       {std::pair("hbm_gib", &caps.hbm_gib), {"host_gib", &caps.host_gib}}) {
    if (!json.has(key)) continue;
    fields.read(key,
                [&, key = key, value = value] { *value = json.number(key, 1.0 / 1024, gib_max); });
  }
  std::optional<double> share;
  if (json.has("hbm_share")) {
    fields.read("hbm_share", [&] {
      if (json.has("hbm_gib")) json.refuse("hbm_share", "cannot be combined with hbm_gib");
      share = json.number("hbm_share", hbm_share_min, hbm_share_max);
    });
  }
  if (!described.empty()) {
    fields.read("machine", [&] {
      experiment.machines.push_back(
          at(json, "machine", [&] { return machine(name, described, caps); }));
      experiment.machines.back().hbm_share = share;
    });
  }
  fields.finish();
  if (!name.empty()) only_once("machines", index, name);
}

std::vector<std::string> Reader::parameters(JsonReader& json) const {
  std::vector<std::string> values;
  if (!json.has("parameters")) return values;
  const boost::json::object* const object = json.at("parameters").if_object();
  if (object == nullptr) json.refuse("parameters", "is not an object");
  for (const auto& member : *object) {
    if (!member.value().is_number())
      json.refuse(join_path("parameters", std::string_view(member.key())), "is not a number");
    values.push_back(
        fmt::format("{}={}", std::string_view(member.key()), sweep_text(member.value())));
  }
  return values;
}

std::string Reader::input(JsonReader& json, std::string_view key) const {
  std::string path = beside(json.text(key));
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) json.refuse(key, fmt::format("{} is not a file", path));
  return path;
}

/// Checks that a maker with this name exists and takes these parameters.
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
              fmt::format("there is no \"{}\"; known are {}", trace.maker, known));
}

void Reader::read_recipe(JsonReader& json, Fields& fields, ExperimentTrace& trace) {
  if (json.has("generate")) {
    trace.kind = ExperimentTrace::Kind::generate;
    fields.read("generate", [&] {
      trace.maker = json.text("generate");
      trace.values = parameters(json);
      at(json, "generate", [&] { require_maker(trace_generators(), trace); });
    });
  } else if (json.has("convert")) {
    trace.kind = ExperimentTrace::Kind::convert;
    fields.read("input", [&] { trace.input = input(json, "input"); });
    fields.read("convert", [&] {
      trace.maker = json.text("convert");
      trace.values = parameters(json);
      at(json, "convert", [&] { require_maker(trace_formats(), trace); });
    });
  } else if (json.has("file")) {
    fields.read("file", [&] { trace.input = input(json, "file"); });
  } else if (!fields.is_misspelt("generate") && !fields.is_misspelt("convert") &&
             !fields.is_misspelt("file")) {
    json.refuse("", "must have one of generate, convert, file");
  }
}

/// By default as the trace is made.
ExperimentTrace::Origin Reader::origin(JsonReader& json, const ExperimentTrace& trace) {
  using Origin = ExperimentTrace::Origin;
  if (!json.has("kind"))
    return trace.kind == ExperimentTrace::Kind::generate ? Origin::synthetic : Origin::real;
  const std::string text = json.text("kind");
  for (const Origin one : {Origin::real, Origin::synthetic, Origin::held_out})
    if (text == to_string(one)) return one;
  json.refuse("kind", "is none of real, synthetic, held_out");
}

ExperimentTrace Reader::trace(JsonReader& json) {
  Fields fields(problems_, json, trace_keys);
  ExperimentTrace trace;
  trace.where = json.where("");
  fields.read("name", [&] { trace.name = json.text("name"); });
  problems_.collect([&] { read_recipe(json, fields, trace); });
  fields.read("kind", [&] { trace.origin = origin(json, trace); });
  fields.finish();
  return trace;
}

std::uint64_t Reader::seed(std::size_t index) {
  const boost::json::value& value = json_.list("seeds")[index];
  boost::system::error_code failed;
  const auto seed = value.is_number() ? value.to_number<std::int64_t>(failed) : -1;
  // The JSON readers keep integers exact up to this value.
  if (failed || seed < 0 || seed > std::int64_t{1} << 53)
    json_.refuse(element("seeds", index), "is not a whole number from 0 to 2^53");
  return static_cast<std::uint64_t>(seed);
}

void Reader::read_machines(Experiment& experiment) {
  each(
      "machines",
      [&](std::size_t i, const std::string& text) {
        only_once("machines", i, text);
        experiment.machines.push_back(machine(text, text, {}));
      },
      [&](std::size_t i, JsonReader& json) { add_machine(i, json, experiment); });
}

void Reader::read_traces(Experiment& experiment) {
  each(
      "traces",
      [&](std::size_t i, const std::string&) {
        json_.refuse(element("traces", i), "is not an object");
      },
      [&](std::size_t i, JsonReader& json) {
        experiment.traces.push_back(trace(json));
        const std::string& name = experiment.traces.back().name;
        if (!name.empty()) only_once("traces", i, name);
      });
}

void Reader::read_policies(Experiment& experiment) {
  const auto add_policy = [&](std::size_t i, const std::string& text) {
    only_once("policies", i, text);
    const std::string library = split_policy_text(text).path;
    if (!library.empty()) experiment.libraries[text] = fs::absolute(beside(library)).string();
    make_policy(experiment, text);
    experiment.policies.push_back(text);
  };
  each("policies", add_policy, [&](std::size_t i, JsonReader& json) {
    Fields fields(problems_, json, policy_keys);
    fields.read("policy", [&] {
      for (const std::string& text : read_sweep(json)) at(json, "", [&] { add_policy(i, text); });
    });
    fields.finish();
  });
}

void Reader::read_routers(Experiment& experiment) {
  experiment.routers = {std::string(default_router)};
  if (!json_.has("routers")) return;
  experiment.routers.clear();
  each(
      "routers",
      [&](std::size_t i, const std::string& text) {
        only_once("routers", i, text);
        make_router(text);
        experiment.routers.push_back(text);
      },
      [](std::size_t, JsonReader& json) { json.refuse("", "must be a string"); });
}

void Reader::read_seeds(Experiment& experiment) {
  experiment.seeds = {1};
  if (!json_.has("seeds")) return;
  experiment.seeds.clear();
  const std::size_t seeds = json_.list("seeds").size();
  if (seeds == 0 || seeds > entries_max) json_.refuse("seeds", "is empty or too long");
  for (std::size_t i = 0; i < seeds; ++i) {
    problems_.collect([&] {
      experiment.seeds.push_back(seed(i));
      only_once("seeds", i, std::to_string(experiment.seeds.back()));
    });
  }
}

/// How requests are admitted, and their limits.
void Reader::read_requests(Fields& fields, Experiment& experiment) {
  const auto read = [&](std::string_view key, auto&& set) {
    if (json_.has(key)) fields.read(key, [&] { at(json_, key, set); });
  };
  read("admission", [&] { experiment.admission = parse_admission(json_.text("admission")); });
  read("admission_memory", [&] {
    experiment.admission_memory = parse_admission_memory(json_.text("admission_memory"));
  });
  std::optional<double> first_ms, step_ms;
  constexpr double day_ms = 86'400'000;
  read("slo_first_ms", [&] { first_ms = json_.number("slo_first_ms", 0, day_ms); });
  read("slo_step_ms", [&] { step_ms = json_.number("slo_step_ms", 0, day_ms); });
  experiment.limits = request_limits(first_ms, step_ms, read_call);
}

Experiment Reader::read() {
  Experiment experiment;
  experiment.file = file_;
  Fields fields(problems_, json_, experiment_keys);
  fields.read("experiment", [&] { experiment.name = json_.text("experiment"); });
  if (json_.has("about")) fields.read("about", [&] { experiment.about = json_.text("about"); });
  fields.read("machines", [&] { read_machines(experiment); });
  fields.read("traces", [&] { read_traces(experiment); });
  fields.read("policies", [&] { read_policies(experiment); });
  fields.read("routers", [&] { read_routers(experiment); });
  if (json_.has("pacing")) {
    fields.read("pacing", [&] {
      experiment.pacing = at(json_, "pacing", [&] { return parse_pacing(json_.text("pacing")); });
    });
  }
  read_requests(fields, experiment);
  fields.read("chunk_mib", [&] {
    const double chunk_mib = json_.number_or("chunk_mib", 32, 1.0 / 1024, 1024.0 * 1024);
    experiment.chunk_bytes = bytes_of(chunk_mib, static_cast<double>(MiB), "chunk_mib");
  });
  fields.read("seeds", [&] { read_seeds(experiment); });
  fields.read("bounds", [&] { experiment.bounds = json_.flag("bounds", false); });
  fields.finish();
  problems_.require_none();
  return experiment;
}

}  // namespace

Experiment read_experiment(const std::string& file) {
  std::optional<std::string> text = read_file(file);
  if (!text) throw Error(ErrorKind::invalid_argument, read_call, file + ": cannot be read");
  const boost::json::value value = parse_json(*text, file, read_call);
  Experiment experiment = Reader(value, file).read();
  experiment.text = *std::move(text);
  return experiment;
}

}  // namespace vma
