// Migrations. Python always moves groups: one kind of report and of handle serves one request and
// many.
#include "python/core/bindings.hpp"
#include "python/core/interpreter.hpp"

#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/vma.hpp>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace vma {
namespace {

using Seconds = std::chrono::duration<double>;

double seconds(std::chrono::nanoseconds time) {
  return Seconds(time).count();
}

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorKind::invalid_argument, "vmart.migrate", text);
}

constexpr const char* call_name = "vmart.migrate";

/// What Python raises leaves as an error of C++, while the GIL is held: the exception of nanobind
/// would take it again when it goes.
template <typename Body>
void calling_python(Body&& body) {
  Interpreter::call([&] {
    try {
      body();
    } catch (const nb::python_error& error) {
      throw std::runtime_error(error.what());
    }
  });
}

Mode mode_of(const std::string& name) {
  if (name == "automatic") return Mode::automatic;
  if (name == "live") return Mode::live;
  if (name == "stopped") return Mode::stopped;
  refuse("mode is \"" + name + "\"; it may be \"automatic\", \"live\" or \"stopped\"");
}

std::optional<StopScope> scope_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "attached") return StopScope::attached;
  if (*name == "hold") return StopScope::hold;
  refuse("scope is \"" + *name + "\"; it may be \"attached\" or \"hold\"");
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::done: return "done";
    case Outcome::partly: return "partly";
    case Outcome::cancelled: return "cancelled";
    case Outcome::failed: return "failed";
  }
  return "failed";
}

/// Tells Python of progress until the migration has ended: a callback is often a method of the
/// object that keeps the migration, whose options would keep the object for ever.
class ProgressCall {
 public:
  explicit ProgressCall(nb::callable callback)
      : callback_(std::make_shared<std::optional<SharedObject>>(std::move(callback))) {}
  void operator()(const MigrationProgress& progress) const {
    calling_python([&] {
      if (*callback_) (*callback_)->get()(progress);
    });
  }
  void end() const {
    Interpreter::call([&] { callback_->reset(); });
  }

 private:
  const std::shared_ptr<std::optional<SharedObject>> callback_;  // Used with the GIL.
};

MigrateOptions make_options(const std::string& mode, const std::optional<std::string>& scope,
                            std::optional<double> deadline, std::optional<double> max_stall,
                            std::optional<int> copy_share_percent, int priority, bool reserve_first,
                            bool all_or_nothing, bool nothing_runs, bool wait_for_pins,
                            bool paranoid, bool keep_clean_copy,
                            std::optional<nb::callable> on_progress) {
  MigrateOptions options;
  options.mode = mode_of(mode);
  options.scope = scope_of(scope);
  if (deadline) {
    options.deadline = duration_of<std::chrono::milliseconds>(*deadline, call_name, "deadline");
    if (options.deadline.count() == 0) refuse("deadline is 0");
  }
  if (max_stall)
    options.max_stall = duration_of<std::chrono::microseconds>(*max_stall, call_name, "max_stall");
  options.copy_share_percent = copy_share_percent;
  options.priority = priority;
  options.reserve_first = reserve_first;
  options.all_or_nothing = all_or_nothing;
  options.nothing_runs = nothing_runs;
  options.wait_for_pins = wait_for_pins;
  options.paranoid = paranoid;
  options.keep_clean_copy = keep_clean_copy;
  if (on_progress) options.on_progress = ProgressCall(std::move(*on_progress));
  return options;
}

void bind_options(nb::module_& module) {
  nb::class_<MigrationProgress>(module, "MigrationProgress")
      .def("__repr__", &shown)
      .def_ro("chunks", &MigrationProgress::chunks)
      .def_ro("chunks_moved", &MigrationProgress::chunks_moved)
      .def_ro("bytes_asked", &MigrationProgress::bytes_asked)
      .def_ro("bytes_moved", &MigrationProgress::bytes_moved);
  nb::class_<MigrateOptions>(module, "MigrateOptions", "How to move; see vmart.migrate.")
      .def(
          "__init__",
          [](MigrateOptions* self, const std::string& mode, const std::optional<std::string>& scope,
             std::optional<double> deadline, std::optional<double> max_stall,
             std::optional<int> copy_share_percent, int priority, bool reserve_first,
             bool all_or_nothing, bool nothing_runs, bool wait_for_pins, bool paranoid,
             bool keep_clean_copy, std::optional<nb::callable> on_progress) {
            new (self) MigrateOptions(
                make_options(mode, scope, deadline, max_stall, copy_share_percent, priority,
                             reserve_first, all_or_nothing, nothing_runs, wait_for_pins, paranoid,
                             keep_clean_copy, std::move(on_progress)));
          },
          nb::kw_only(), nb::arg("mode") = "automatic", nb::arg("scope") = nb::none(),
          nb::arg("deadline") = nb::none(), nb::arg("max_stall") = nb::none(),
          nb::arg("copy_share_percent") = nb::none(), nb::arg("priority") = 0,
          nb::arg("reserve_first") = false, nb::arg("all_or_nothing") = false,
          nb::arg("nothing_runs") = false, nb::arg("wait_for_pins") = false,
          nb::arg("paranoid") = false, nb::arg("keep_clean_copy") = false,
          nb::arg("on_progress") = nb::none());
}

void bind_reports(nb::module_& module) {
  nb::class_<MigrationReport>(module, "MigrationReport", "What a migration did. Times in seconds.")
      .def("__repr__", &shown)
      .def_prop_ro("outcome", [](const MigrationReport& self) { return name_of(self.outcome); })
      .def_ro("offset", &MigrationReport::offset)
      .def_ro("bytes_asked", &MigrationReport::bytes_asked)
      .def_ro("bytes_moved", &MigrationReport::bytes_moved)
      .def_ro("bytes_copied_twice", &MigrationReport::bytes_copied_twice)
      .def_ro("bytes_remapped", &MigrationReport::bytes_remapped)
      .def_ro("chunks", &MigrationReport::chunks)
      .def_ro("chunks_moved", &MigrationReport::chunks_moved)
      .def_ro("chunks_live", &MigrationReport::chunks_live)
      .def_ro("retries", &MigrationReport::retries)
      .def_ro("reasons", &MigrationReport::reasons)
      .def_ro("route", &MigrationReport::route)
      .def_ro("importers", &MigrationReport::importers)
      .def_prop_ro("stop",
                   [](const MigrationReport& self) { return std::string(to_string(self.stop)); })
      .def_prop_ro("gates", [](const MigrationReport& self) { return self.stall.count; })
      .def_prop_ro("wall", [](const MigrationReport& self) { return seconds(self.wall); })
      .def_prop_ro("stall_median",
                   [](const MigrationReport& self) { return seconds(self.stall.median); })
      .def_prop_ro("stall_p99", [](const MigrationReport& self) { return seconds(self.stall.p99); })
      .def_prop_ro("stall_max", [](const MigrationReport& self) { return seconds(self.stall.max); })
      .def_prop_ro("failures", [](const MigrationReport& self) {
        std::vector<std::string> failures;
        for (const ChunkFailure& failure : self.failures) {
          failures.push_back("offset " + std::to_string(failure.offset) + ": " + failure.reason);
        }
        return failures;
      });
  nb::class_<RequestReport>(module, "RequestReport", "What became of one request.")
      .def("__repr__", &shown)
      .def_ro("report", &RequestReport::report)
      .def_ro("error", &RequestReport::error)
      .def_prop_ro("pointer",
                   [](const RequestReport& self) {
                     return reinterpret_cast<std::uintptr_t>(self.request.pointer);
                   })
      .def_prop_ro("to", [](const RequestReport& self) { return self.request.to; })
      .def_prop_ro("names_range", [](const RequestReport& self) { return self.request.bytes > 0; });
  nb::class_<GroupReport>(module, "GroupReport", "What became of several requests.")
      .def("__repr__", &shown)
      .def_ro("total", &GroupReport::total)
      .def_ro("requests", &GroupReport::requests);
}

}  // namespace

void bind_moves(nb::module_& module) {
  bind_options(module);
  bind_reports(module);
  nb::class_<MoveRequest>(module, "MoveRequest")
      .def(
          "__init__",
          [](MoveRequest* self, std::uintptr_t pointer, Place to, std::size_t offset,
             std::size_t bytes) {
            new (self) MoveRequest{reinterpret_cast<void*>(pointer), to, offset, bytes};
          },
          nb::arg("pointer"), nb::arg("to"), nb::arg("offset") = 0, nb::arg("nbytes") = 0);

  const nb::call_guard<Unlocked> unlocked;
  nb::class_<MigrationGroup>(module, "MigrationGroup", "A running migration.")
      .def("wait", &MigrationGroup::wait, unlocked)
      .def(
          "wait_for",
          [](const MigrationGroup& self, double limit) {
            return self.wait_for(
                duration_of<std::chrono::nanoseconds>(limit, call_name, "timeout"));
          },
          nb::arg("timeout"), unlocked)
      .def("done", &MigrationGroup::done)
      .def("cancel", &MigrationGroup::cancel, unlocked)
      .def("report", &MigrationGroup::report, unlocked)
      .def(
          "on_done",
          [](const MigrationGroup& self, nb::callable callback) {
            SharedObject kept(std::move(callback));
            const Unlocked unlocked;
            self.on_done([kept] { calling_python([&] { kept.get()(); }); });
          },
          nb::arg("callback"));
  module.def(
      "migrate",
      [](const std::vector<MoveRequest>& requests, const MigrateOptions& options) {
        return migrate(requests, options);
      },
      nb::arg("requests"), nb::arg("options"), unlocked);
  module.def(
      "migrate_async",
      [](const std::vector<MoveRequest>& requests, const MigrateOptions& options) {
        MigrationGroup group = migrate_async(requests, options);
        if (const auto* progress = options.on_progress.target<ProgressCall>()) {
          group.on_done([kept = *progress] { kept.end(); });
        }
        return group;
      },
      nb::arg("requests"), nb::arg("options"), unlocked);
}

}  // namespace vma
