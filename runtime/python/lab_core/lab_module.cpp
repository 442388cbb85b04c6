// The extension `vmart._lab`: replays and traces of the placement lab for vmart.lab, which is what
// users call. It is apart from `vmart._core` so that programs which move memory never load the lab.
// Policies of Python, and the exceptions of vmart.errors, are those of `_core`. Nothing here uses
// the runtime.
#include "lab/experiments/lab_worker.hpp"
#include "lab/experiments/single_replay.hpp"
#include "lab/generate/trace_generators.hpp"
#include "lab/policies/lab_policies.hpp"
#include "lab/trace/event_order.hpp"
#include "lab/trace/trace_files.hpp"
#include "lab/trace/trace_line_parser.hpp"
#include "python/core/interpreter.hpp"
#include "scheduling/policy_library.hpp"

#include <vma/error.hpp>
#include <vma/policy.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace vma {
namespace {

/// Lets Ctrl-C end a replay that calls no code of Python. Requires: it is called on the main thread
/// of Python, which alone gets signals and outlives no interpreter.
class SignalCheck {
 public:
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Whether Python raised what no `except Exception` catches: Ctrl-C, or SystemExit.
bool ends_programs(const std::exception& error) {
  const auto* raised = dynamic_cast<const nb::python_error*>(&error);
  if (raised == nullptr) return false;
  const nb::gil_scoped_acquire acquire;
  return !raised->matches(PyExc_Exception);
}

/// Returns what `vmart-lab replay --json` prints. `policies` are known beside those of the lab.
std::string replay(ReplaySetting setting, const std::vector<const PolicyKind*>& policies,
                   bool failures_end_it, bool on_main_thread) {
  setting.ends_it = [failures_end_it](const std::exception& error) {
    return failures_end_it || ends_programs(error);
  };
  PolicyRegistry known = lab_policies();
  for (const PolicyKind* kind : policies) known.add(*kind);
  std::function<void()> at_tick;
  if (on_main_thread) at_tick = SignalCheck();
  const Unlocked unlocked;
  return boost::json::serialize(to_json(replay_trace(setting, known, std::move(at_tick))));
}

void generate(const std::string& name, const std::vector<std::string>& values, std::uint64_t seed,
              const std::string& output) {
  const Unlocked unlocked;
  generate_trace({name, output, values, seed});
}

/// The parameters of all generators, by generator and name.
std::string generators() {
  boost::json::object all;
  for (const TraceGenerator& one : trace_generators()) {
    boost::json::object parameters;
    for (const TraceParameter& each : one.parameters) {
      parameters[each.name] = boost::json::object{{"default", each.otherwise},
                                                  {"least", each.least},
                                                  {"most", each.most},
                                                  {"meaning", each.meaning}};
    }
    all[one.name] =
        boost::json::object{{"meaning", one.meaning}, {"parameters", std::move(parameters)}};
  }
  return boost::json::serialize(all);
}

/// The header and the totals of a trace, and the first events that do not fit.
std::string describe(const std::string& path) {
  const Unlocked unlocked;
  const auto source = open_trace(path, 0);
  const TraceAudit audit = audit_trace(*source);
  boost::json::object json = to_json(source->header(), audit);
  boost::json::array faults;
  for (const TraceAudit::Fault& fault : audit.faults())
    faults.push_back(boost::json::object{{"event", fault.event}, {"reason", fault.reason}});
  json["faults"] = std::move(faults);
  const TraceRoom& room = audit.room();
  json["room"] = {room.peak_bytes, room.sized_chunk_max, room.unsized_object_max};
  return boost::json::serialize(json);
}

/// Writes a trace from lines of JSON, in any order of time. One thread at a time calls it, which
/// the GIL ensures.
class LineWriter {
 public:
  LineWriter(const std::string& path, TraceHeader header)
      : sink_(create_trace(path, header)), order_(*sink_) {}

  void add(const std::string& line) {
    TraceEvent event;
    TraceTags tags;
    if (!parser_.parse(line, event, tags)) refuse(parser_.reason());
    event.tag = order_.intern(tags.text(event.tag));
    order_.add(event);
    for (const TraceEvent& after : parser_.after()) order_.add(after);
  }
  void advance(std::int64_t time_ns) { order_.advance(Time(time_ns)); }
  void finish() {
    order_.finish();
    if (order_.audit().events() == 0) refuse("the trace has no events");
    sink_->finish();
  }

 private:
  [[noreturn]] static void refuse(const std::string& reason) {
    throw Error(ErrorKind::invalid_argument, "vmart.lab.TraceWriter", reason);
  }

  std::unique_ptr<TraceSink> sink_;
  EventOrder order_;
  TraceLineParser parser_;
};

/// The policies of Python in the file at `path`, by `load_python`, which returns a list of
/// PolicyKind. Other files are shared objects.
PolicyRegistry load_any(const std::string& path, nb::handle load_python) {
  if (!path.ends_with(".py")) return load_policies(path);
  PolicyRegistry kinds;
  const nb::gil_scoped_acquire acquire;
  const nb::object loaded = load_python(path);  // Owns what the pointers name.
  for (const PolicyKind* kind : nb::cast<std::vector<const PolicyKind*>>(loaded)) kinds.add(*kind);
  return kinds;
}

/// A `LabWorker` for experiments with policies of Python. The main thread of a process calls it.
class Worker {
 public:
  explicit Worker(nb::object load_python)
      : load_python_(std::move(load_python)),
        worker_([this](const std::string& path) { return load_any(path, load_python_); }) {}

  std::string answer(const std::string& question) {
    const Unlocked unlocked;
    return worker_.answer(question);
  }

 private:
  const nb::object load_python_;
  LabWorker worker_;
};

void bind_setting(nb::module_& module) {
  nb::class_<ReplaySetting>(module, "ReplaySetting", "As the options of `vmart-lab replay`.")
      .def(nb::init<>())
      .def_rw("trace", &ReplaySetting::trace)
      .def_rw("machine", &ReplaySetting::machine)
      .def_rw("policy", &ReplaySetting::policy)
      .def_rw("router", &ReplaySetting::router)
      .def_rw("pacing", &ReplaySetting::pacing)
      .def_rw("hbm_gib", &ReplaySetting::hbm_gib, nb::arg().none())
      .def_rw("host_gib", &ReplaySetting::host_gib, nb::arg().none())
      .def_rw("hbm_share", &ReplaySetting::hbm_share, nb::arg().none())
      .def("know_room",
           [](ReplaySetting& self, std::uint64_t peak, std::uint64_t sized, std::uint64_t unsized) {
             self.room = TraceRoom{peak, sized, unsized};
           })
      .def_rw("half_life_ms", &ReplaySetting::half_life_ms, nb::arg().none())
      .def_rw("calibration", &ReplaySetting::calibration)
      .def_rw("admission", &ReplaySetting::admission)
      .def_rw("admission_memory", &ReplaySetting::admission_memory)
      .def_rw("slo_first_ms", &ReplaySetting::slo_first_ms, nb::arg().none())
      .def_rw("slo_step_ms", &ReplaySetting::slo_step_ms, nb::arg().none())
      .def_rw("use_interval_ms", &ReplaySetting::use_interval_ms)
      .def_rw("uses", &ReplaySetting::uses)
      .def_rw("unseen", &ReplaySetting::unseen)
      .def_rw("stop", &ReplaySetting::stop)
      .def_rw("ahead_ms", &ReplaySetting::ahead_ms)
      .def_rw("stall_budget_ms", &ReplaySetting::stall_budget_ms)
      .def_rw("stall_ahead_ms", &ReplaySetting::stall_ahead_ms)
      .def_rw("no_pace_guard", &ReplaySetting::no_pace_guard)
      .def_rw("chunk_mib", &ReplaySetting::chunk_mib);
}

}  // namespace
}  // namespace vma

NB_MODULE(_lab, module) {
  using namespace vma;
  nanobind::set_leak_warnings(false);
  // Has the classes of policies, and what turns `Error` into those of vmart.errors.
  nb::module_::import_("vmart._core");
  bind_setting(module);
  module.def("replay", &replay, nb::arg("setting"), nb::arg("policies"), nb::arg("failures_end_it"),
             nb::arg("on_main_thread"));
  module.def("generate", &generate, nb::arg("name"), nb::arg("values"), nb::arg("seed"),
             nb::arg("output"));
  module.def("generators", &generators);
  module.def("describe", &describe, nb::arg("path"));
  nb::class_<LineWriter>(module, "LineWriter", "Writes a trace from lines of JSON.")
      .def(
          "__init__",
          [](LineWriter* self, const std::string& path, const std::string& name,
             const std::string& origin, const std::string& licence, const std::string& made) {
            new (self) LineWriter(path, {name, origin, licence, made});
          },
          nb::arg("path"), nb::arg("name"), nb::arg("origin"), nb::arg("licence"), nb::arg("made"))
      .def("add", &LineWriter::add, nb::arg("line"))
      .def("advance", &LineWriter::advance, nb::arg("time_ns"))
      .def("finish", &LineWriter::finish);
  nb::class_<Worker>(module, "Worker", "Answers the questions of vmart.lab.experiments.")
      .def(nb::init<nb::object>(), nb::arg("load_python"))
      .def("answer", &Worker::answer, nb::arg("question"));
}
