#include "lab/experiments/lab_worker.hpp"

#include "base/interface_versions.hpp"
#include "base/nearest_name.hpp"
#include "lab/experiments/content_sum.hpp"
#include "lab/generate/trace_generators.hpp"
#include "lab/import/trace_formats.hpp"
#include "lab/policies/lab_policies.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "lab/routing/router.hpp"
#include "lab/trace/trace_files.hpp"
#include "machine/machine_file.hpp"
#include "placement/policies/policy_text.hpp"

#include <vma/error.hpp>

#include <boost/json/serialize.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vma {
namespace {

namespace fs = std::filesystem;
using Answer = boost::json::object;

constexpr const char* call = "vmart-lab cells";
constexpr double day_ms = 86'400'000;
constexpr double gib_max = 64.0 * 1024 * 1024;
constexpr std::int64_t whole_max = std::numeric_limits<std::int64_t>::max();

std::optional<double> optional_number(JsonReader& json, std::string_view key, double most) {
  if (!json.has(key)) return std::nullopt;
  return json.number(key, 0, most);
}

std::uint64_t whole(JsonReader& json, std::string_view key) {
  return static_cast<std::uint64_t>(json.integer(key, 0, whole_max));
}

const boost::json::object& object_at(JsonReader& json, std::string_view key) {
  const boost::json::object* const object = json.at(key).if_object();
  if (object == nullptr) json.refuse(key, "is not an object");
  return *object;
}

std::vector<std::string> texts_at(JsonReader& json, std::string_view key) {
  std::vector<std::string> texts;
  for (const boost::json::value& value : json.list(key)) texts.emplace_back(value.as_string());
  return texts;
}

/// Checks a JSON text that a person wrote.
Answer json_text(JsonReader& question) {
  parse_json(std::string(question.at("text").as_string()), question.text("file"),
             "read_experiment");
  return {};
}

Answer nearest(JsonReader& question) {
  const std::vector<std::string> names = texts_at(question, "names");
  const std::vector<std::string_view> views(names.begin(), names.end());
  return {{"nearest", nearest_name(question.text("name"), views)}};
}

/// Checks a value that a replay takes.
Answer setting_text(JsonReader& question) {
  const std::string name = question.text("name"), value = question.text("value");
  if (name == "router") make_router(value);
  if (name == "pacing") parse_pacing(value);
  if (name == "uses") parse_told_uses(value);
  if (name == "stop") parse_stop(value);
  if (name == "admission") parse_admission(value);
  if (name == "admission_memory") parse_admission_memory(value);
  return {};
}

template <typename Maker>
void require_maker(std::span<const Maker> makers, const std::string& name) {
  if (std::ranges::find(makers, name, &Maker::name) != makers.end()) return;
  std::string known;
  for (const Maker& one : makers) known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  throw Error(ErrorKind::invalid_argument, "traces",
              fmt::format("there is no \"{}\"; known are {}", name, known));
}

/// How a trace is made from parameters and a seed, as its header says it.
Answer recipe(JsonReader& question) {
  const std::vector<std::string> values = texts_at(question, "values");
  const std::uint64_t seed = whole(question, "seed");
  if (question.has("generate")) {
    const std::string name = question.text("generate");
    require_maker(trace_generators(), name);
    return {{"made", how_made(GenerateOptions{name, {}, values, seed})}};
  }
  const std::string name = question.text("convert");
  require_maker(trace_formats(), name);
  return {{"made", how_made(ConvertOptions{name, {}, {}, values, seed})}};
}

/// All files that a conversion reads.
Answer files(JsonReader& question) {
  const ConvertOptions options{question.text("convert"), question.text("input"), {}, {}};
  boost::json::array list;
  for (const std::string& file : files_of(options)) list.emplace_back(file);
  return {{"files", std::move(list)}};
}

Answer file_sum(JsonReader& question) {
  return {{"sum", sum_of_file(question.text("file"))}};
}

/// Reads a trace to its end. Throws: as `audit_trace`; Error{invalid_argument} without events, or
/// for inconsistent ones.
Answer trace(JsonReader& question) {
  const std::string path = question.text("file");
  const TraceAudit audit = audit_trace(path);
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorKind::invalid_argument, "trace", fmt::format("{}: {}", path, reason));
  };
  if (audit.events() == 0) refuse("there are no events");
  if (audit.fault_count() > 0) {
    const TraceAudit::Fault& first = audit.faults().front();
    refuse(fmt::format("event {}: {}; {} events do not fit", first.event, first.reason,
                       audit.fault_count()));
  }
  const TraceRoom& room = audit.room();
  return {{"file", path},
          {"sum", sum_of_file(path)},
          {"unplaced", audit.unplaced()},
          {"closed_loop", audit.count(TraceEventKind::task) > 0},
          {"peak_bytes", room.peak_bytes},
          {"sized_chunk_max", room.sized_chunk_max},
          {"unsized_object_max", room.unsized_object_max}};
}

/// How many standard errors on each side of a mean hold the true one 95 times of 100, if values are
/// normal: Student's t(0.975; freedom) ("The probable error of a mean", Biometrika 6, 1908).
Answer t_point(JsonReader& question) {
  const boost::math::students_t distribution(question.number("freedom", 1, 1e9));
  return {{"t_point", boost::math::quantile(distribution, 0.975)}};
}

TraceRoom room_of(JsonReader& trace) {
  return {whole(trace, "peak_bytes"), whole(trace, "sized_chunk_max"),
          whole(trace, "unsized_object_max")};
}

/// The numbers of GiB of a machine's capacities.
PlaceCaps caps_of(JsonReader& described) {
  return {optional_number(described, "hbm_gib", gib_max),
          optional_number(described, "host_gib", gib_max)};
}

/// What an experiment may leave out.
void set_given(JsonReader& question, ReplayOptions& options) {
  const auto time = [&](std::string_view key, double least, double most, Time& value) {
    if (!question.has(key)) return;
    value = milliseconds_of(question.number(key, least, most), least, most, key, call);
  };
  time("use_interval_ms", 0.01, day_ms, options.use_interval);
  time("stall_budget_ms", 0, 1000, options.stall_budget);
  options.scheduler.pace.watches = question.flag("pace_guard", true);
  if (question.has("uses")) options.told_uses = parse_told_uses(question.text("uses"));
  options.unseen = optional_number(question, "unseen", 1).value_or(0);
}

/// What a result is to record as its inputs. Throws: Error{invalid_argument} if it would be made
/// from others: files change, and each worker reads them for itself.
const boost::json::object& inputs_of(JsonReader& question, const CellSetting& setting) {
  const boost::json::object& inputs = object_at(question, "inputs");
  const auto require = [&](std::string_view key, const std::string& now) {
    const boost::json::value* const recorded = inputs.if_contains(key);
    if (recorded == nullptr || *recorded != boost::json::value(now)) {
      question.refuse("inputs",
                      fmt::format("{} has changed since the run began: it is {} now", key, now));
    }
  };
  require("version", VMART_VERSION);
  require("machine_sum", sum_of_machine(setting.machine));
  if (question.has("library")) require("policy_sum", sum_of_file(question.text("library")));
  return inputs;
}

}  // namespace

const ReplayMachine& LabWorker::known_machine(JsonReader& described) {
  const PlaceCaps caps = caps_of(described);
  const std::string key = fmt::format("{} {} {}", caps.hbm_gib.value_or(-1),
                                      caps.host_gib.value_or(-1), described.text("file"));
  const auto found = machines_.find(key);
  if (found != machines_.end()) return found->second;
  ReplayMachine machine = replay_machine(load_machine(described.text("file")));
  cap_places(machine, caps);
  return machines_.emplace(key, std::move(machine)).first->second;
}

/// The machine on which a trace is replayed; with `hbm_share`, its HBM depends on the trace.
ReplayMachine LabWorker::machine_of(JsonReader& question, ReplayOptions& options) {
  JsonReader described = question.object("machine");
  ReplayMachine machine = known_machine(described);
  if (described.has("hbm_share")) {
    JsonReader trace = question.object("trace");
    share_hbm(machine, described.number("hbm_share", hbm_share_min, hbm_share_max), room_of(trace),
              whole(question, "chunk_bytes"));
  }
  const std::string stop = question.has("stop") ? question.text("stop") : "gate";
  stop_by(parse_stop(stop), machine, options);
  return machine;
}

std::unique_ptr<Policy> LabWorker::policy_of(const std::string& text, const std::string& library) {
  if (library.empty()) return load_policy(text, lab_policies());
  PolicyText split = split_policy_text(text);
  split.path = library;
  return make_library_policy(split, load_(library));
}

/// Creates a policy once. A library lies relative to `folder`; the answer has its absolute path.
LabWorker::Answer LabWorker::policy(JsonReader& question) {
  const std::string text = question.text("policy");
  std::string library = split_policy_text(text).path;
  if (!library.empty()) {
    const fs::path path = fs::path(std::string(question.at("folder").as_string())) / library;
    library = fs::absolute(path.lexically_normal()).string();
  }
  policy_of(text, library);
  return library.empty() ? Answer() : Answer{{"library", library}};
}

/// The checksum of a machine, and the HBM of its largest GPU.
LabWorker::Answer LabWorker::machine(JsonReader& question) {
  ReplayOptions unused;
  const ReplayMachine machine = machine_of(question, unused);
  std::uint64_t hbm_bytes = 0;
  for (const PlaceState& place : machine.places) {
    if (place.place.kind == Place::Kind::gpu) hbm_bytes = std::max(hbm_bytes, place.capacity_bytes);
  }
  return {{"sum", sum_of_machine(machine)}, {"hbm_bytes", hbm_bytes}};
}

CellSetting LabWorker::setting(JsonReader& question) {
  JsonReader trace = question.object("trace");
  ReplayOptions options;
  options.pacing = parse_pacing(question.text("pacing"));
  options.chunk_bytes = whole(question, "chunk_bytes");
  options.admission = parse_admission(question.text("admission"));
  options.admission_memory = parse_admission_memory(question.text("admission_memory"));
  set_given(question, options);
  ReplayMachine machine = machine_of(question, options);
  return {std::move(machine), trace.text("file"), trace.flag("closed_loop", false),
          question.text("router"), options};
}

std::string LabWorker::cell(JsonReader& question) {
  CellSetting setting = this->setting(question);
  const RequestLimits limits =
      request_limits(optional_number(question, "slo_first_ms", day_ms),
                     optional_number(question, "slo_step_ms", day_ms), call);
  const std::string library = question.has("library") ? question.text("library") : "";
  std::unique_ptr<Policy> policy = policy_of(question.text("policy"), library);
  // Only now, so that a library which is replaced before it is loaded is noticed.
  const boost::json::object& inputs = inputs_of(question, setting);
  return run_cell(setting, std::move(policy), limits,
                  {object_at(question, "cell"), inputs, question.at("bound")});
}

std::string LabWorker::bound(JsonReader& question) {
  CellSetting setting = this->setting(question);
  const boost::json::object& inputs = inputs_of(question, setting);
  // If the trace names every device, the router is never used, and any will do.
  JsonReader trace = question.object("trace");
  if (whole(trace, "unplaced") == 0) setting.router = "hash";
  return run_bound(setting, inputs);
}

std::string LabWorker::line_for(JsonReader question) {
  using Free = Answer (*)(JsonReader&);
  static const std::map<std::string, Free> answers{
      {"json", json_text}, {"nearest", nearest}, {"setting", setting_text}, {"recipe", recipe},
      {"files", files},    {"sum", file_sum},    {"trace", trace},          {"t_point", t_point}};
  const std::string what = question.text("do");
  if (what == "cell") return cell(question);
  if (what == "bound") return bound(question);
  if (what == "policy") return boost::json::serialize(policy(question)) + "\n";
  if (what == "machine") return boost::json::serialize(machine(question)) + "\n";
  if (what == "version") {
    return boost::json::serialize(Answer{{"version", VMART_VERSION}, {"protocol", lab_protocol}}) +
           "\n";
  }
  const auto found = answers.find(what);
  if (found == answers.end()) question.refuse("do", fmt::format("\"{}\" is not known", what));
  return boost::json::serialize(found->second(question)) + "\n";
}

std::string LabWorker::answer(const std::string& question) {
  try {
    const boost::json::value json = parse_json(question, "question", call);
    return line_for(JsonReader(json, "question", "", call));
  } catch (const std::exception& error) {
    return boost::json::serialize(Answer{{"error", error.what()}}) + "\n";
  }
}

}  // namespace vma
