// The process-wide runtime: opening it, what it holds, and the calls that keep something while an
// object exists.
#include "python/core/bindings.hpp"
#include "python/core/cpu_views.hpp"
#include "python/core/interpreter.hpp"

#include <vma/counters.hpp>
#include <vma/error.hpp>
#include <vma/vma.hpp>
#include <vma/vmart.h>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace vma {
namespace {

using Seconds = std::chrono::duration<double>;

void* pointer_of(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

std::optional<std::chrono::nanoseconds> from_now(std::optional<double> value, const char* name) {
  if (!value) return std::nullopt;
  return duration_of<std::chrono::nanoseconds>(*value, "vmart.advise", name);
}

/// Keeps a pin, a read-only scope, a hook, an attached stream or an export, until it is released.
/// The GIL is released meanwhile, because what ends may wait for a callback in Python. Python's
/// collector sees the callbacks that it keeps: a hook is often a method of the object that keeps
/// it.
class Guard {
 public:
  template <typename Held>
  explicit Guard(Held held, std::vector<SharedObject> callbacks = {})
      : held_(std::make_shared<Held>(std::move(held))), callbacks_(std::move(callbacks)) {}
  Guard(Guard&&) noexcept = default;
  Guard& operator=(Guard&&) = delete;
  ~Guard() { release(); }

  bool released() const noexcept { return held_ == nullptr; }
  void release() {
    if (!held_) return;
    // Taken out with the GIL: another thread may release it, too.
    std::shared_ptr<void> held = std::move(held_);
    const std::vector<SharedObject> callbacks = std::exchange(callbacks_, {});
    const Unlocked unlocked;
    held.reset();
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    for (const SharedObject& callback : nb::inst_ptr<Guard>(self)->callbacks_) {
      Py_VISIT(callback.get().ptr());
    }
    return 0;
  }
  static int clear(PyObject* self) noexcept {
    nb::inst_ptr<Guard>(self)->release();
    return 0;
  }

 private:
  std::shared_ptr<void> held_;
  std::vector<SharedObject> callbacks_;
};

PyType_Slot guard_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(Guard::traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(Guard::clear)},
    {0, nullptr},
};

struct Exported {
  std::string path;
  Guard guard;
};

UseKind use_of(const std::string& kind) {
  if (kind == "read") return UseKind::read;
  if (kind == "write") return UseKind::write;
  if (kind == "read_write") return UseKind::read_write;
  if (kind == "unknown") return UseKind::unknown;
  throw Error(
      ErrorKind::invalid_argument, "vmart.record_use",
      "kind is \"" + kind + "\"; it may be \"read\", \"write\", \"read_write\" or \"unknown\"");
}

enum class HookTime { before, after };

/// An exception in a hook keeps the chunk where it is; its text becomes the error of the move. Once
/// the interpreter has ended, so does a hook that goes before, and nobody is left to tell of a
/// move.
std::function<void(const MoveEvent&)> hook_of(const std::optional<SharedObject>& callback,
                                              HookTime time) {
  if (!callback) return {};
  return [kept = *callback, time](const MoveEvent& event) {
    std::optional<std::string> raised;
    const bool called = Interpreter::call([&] {
      try {
        kept.get()(event);
      } catch (const nb::python_error& error) {
        raised = error.what();
      }
    });
    const char* const when = time == HookTime::before ? "before a move" : "after a move";
    if (raised) throw Error(ErrorKind::cancelled, when, *raised);
    if (called || time == HookTime::after) return;
    throw Error(ErrorKind::cancelled, when, "the Python interpreter has ended");
  };
}

/// A property for each counter of the table. Times are in seconds.
template <typename Stats>
void bind_counters(nb::class_<Stats> bound) {
  for_each_counter<Stats>([&](const auto& counter) {
    const auto member = counter.member;
    const auto get = [member](const Stats& self) {
      using Value = std::remove_cvref_t<decltype(self.*member)>;
      if constexpr (std::is_same_v<Value, std::chrono::nanoseconds>) {
        return Seconds(self.*member).count();
      } else {
        return self.*member;
      }
    };
    bound.def_prop_ro(counter.name, get, counter.help);
  });
}

void bind_infos(nb::module_& module) {
  nb::class_<AllocationInfo>(module, "AllocationInfo", "One allocation, or one segment of a pool.")
      .def("__repr__", &shown)
      .def_prop_ro(
          "pointer",
          [](const AllocationInfo& self) { return reinterpret_cast<std::uintptr_t>(self.pointer); })
      .def_ro("nbytes", &AllocationInfo::bytes)
      .def_ro("chunk_bytes", &AllocationInfo::chunk_bytes)
      .def_ro("tag", &AllocationInfo::tag)
      .def_ro("movable", &AllocationInfo::movable)
      .def_ro("parked", &AllocationInfo::parked)
      .def_ro("cpu_faults", &AllocationInfo::cpu_faults)
      .def_ro("extents", &AllocationInfo::extents);
  bind_counters<RuntimeStats::PlaceStats>(
      nb::class_<RuntimeStats::PlaceStats>(module, "PlaceStats", "Memory at a place.")
          .def("__repr__", &shown)
          .def_ro("at", &RuntimeStats::PlaceStats::at));
  bind_counters<GpuLoad>(
      nb::class_<GpuLoad>(module, "GpuLoad", "What NVML reports for a GPU, for all processes.")
          .def("__repr__", &shown)
          .def_ro("at", &GpuLoad::at));
  nb::class_<DurationSummary>(module, "DurationSummary", "Many durations, in seconds.")
      .def("__repr__", &shown)
      .def_ro("count", &DurationSummary::count)
      .def_prop_ro("median",
                   [](const DurationSummary& self) { return Seconds(self.median).count(); })
      .def_prop_ro("p99", [](const DurationSummary& self) { return Seconds(self.p99).count(); })
      .def_prop_ro("max", [](const DurationSummary& self) { return Seconds(self.max).count(); });
  bind_counters<RuntimeStats>(
      nb::class_<RuntimeStats>(module, "Stats", "Memory that the runtime holds, and counters.")
          .def("__repr__", &shown)
          .def_ro("places", &RuntimeStats::places)
          .def_prop_ro("loads", [](const RuntimeStats& self) { return self.loads.gpus; }));
  bind_counters<SchedulerStats>(
      nb::class_<SchedulerStats>(module, "SchedulerStats", "Counters of the background scheduler.")
          .def("__repr__", &shown)
          .def_ro("running", &SchedulerStats::running)
          .def_ro("paused", &SchedulerStats::paused)
          .def_ro("moves_held", &SchedulerStats::moves_held)
          .def_ro("policy", &SchedulerStats::policy));
}

void bind_outcomes(nb::module_& module) {
  nb::class_<ParkReport::Stayed>(module, "Stayed")
      .def("__repr__", &shown)
      .def_prop_ro("pointer",
                   [](const ParkReport::Stayed& self) {
                     return reinterpret_cast<std::uintptr_t>(self.pointer);
                   })
      .def_ro("nbytes", &ParkReport::Stayed::bytes)
      .def_ro("reason", &ParkReport::Stayed::reason);
  nb::class_<ParkReport>(module, "ParkReport", "What park or resume did.")
      .def("__repr__", &shown)
      .def_ro("allocations", &ParkReport::allocations)
      .def_ro("bytes_moved", &ParkReport::bytes_moved)
      .def_ro("bytes_dropped", &ParkReport::bytes_dropped)
      .def_ro("bytes_elsewhere", &ParkReport::bytes_elsewhere)
      .def_ro("stayed", &ParkReport::stayed)
      .def_prop_ro("wall", [](const ParkReport& self) { return Seconds(self.wall).count(); });
  nb::class_<DrainReport>(module, "DrainReport",
                          "What drain did, and the reasons for what is left.")
      .def("__repr__", &shown)
      .def_ro("bytes_moved", &DrainReport::bytes_moved)
      .def_ro("bytes_left", &DrainReport::bytes_left)
      .def_ro("left", &DrainReport::left)
      .def_prop_ro("wall", [](const DrainReport& self) { return Seconds(self.wall).count(); });
  nb::class_<MoveEvent>(module, "MoveEvent", "One chunk that is about to move or has moved.")
      .def("__repr__", &shown)
      .def_prop_ro(
          "pointer",
          [](const MoveEvent& self) { return reinterpret_cast<std::uintptr_t>(self.pointer); })
      .def_ro("offset", &MoveEvent::offset)
      .def_ro("nbytes", &MoveEvent::bytes)
      .def_ro("source", &MoveEvent::from)
      .def_ro("target", &MoveEvent::to)
      .def_ro("generation", &MoveEvent::generation)
      .def_ro("moved", &MoveEvent::moved)
      .def_ro("dropped", &MoveEvent::dropped);
}

void bind_opening(nb::module_& module) {
  module.def(
      "open_runtime",
      [](const std::string& driver, const std::vector<int>& devices,
         const std::map<std::string, std::size_t>& capacity, const std::string& policy,
         std::vector<PolicyKind> policies, std::optional<double> tick, bool dry_run,
         const std::string& control, const std::string& timeline,
         std::optional<std::size_t> cache_bytes_per_gpu,
         std::optional<std::size_t> host_cache_bytes, std::optional<double> max_stall,
         std::optional<double> stall_budget, std::optional<int> copy_share_percent) {
        RuntimeOptions options;
        options.driver = driver;
        options.devices = devices;
        for (const auto& [place, bytes] : capacity) {
          options.capacity_bytes[parse_place(place)] = bytes;
        }
        options.policy = policy;
        options.policies = std::move(policies);
        const auto microseconds = [](double value, const char* name) {
          return duration_of<std::chrono::microseconds>(value, "vmart.open_runtime", name);
        };
        if (tick) options.tick = microseconds(*tick, "tick");
        if (max_stall) options.max_stall = microseconds(*max_stall, "max_stall");
        if (stall_budget) options.stall_budget = microseconds(*stall_budget, "stall_budget");
        options.dry_run = dry_run;
        options.control = control;
        options.timeline = timeline;
        options.cache_bytes_per_gpu = cache_bytes_per_gpu;
        options.host_cache_bytes = host_cache_bytes;
        options.copy_share_percent = copy_share_percent;
        const Unlocked unlocked;
        vma::open_runtime(options);
      },
      nb::kw_only(), nb::arg("driver") = "", nb::arg("devices") = std::vector<int>(),
      nb::arg("capacity") = std::map<std::string, std::size_t>(), nb::arg("policy") = "",
      nb::arg("policies") = std::vector<PolicyKind>(), nb::arg("tick") = nb::none(),
      nb::arg("dry_run") = false, nb::arg("control") = "", nb::arg("timeline") = "",
      nb::arg("cache_bytes_per_gpu") = nb::none(), nb::arg("host_cache_bytes") = nb::none(),
      nb::arg("max_stall") = nb::none(), nb::arg("stall_budget") = nb::none(),
      nb::arg("copy_share_percent") = nb::none());
  module.def("runtime_is_open", &runtime_is_open);
  const nb::call_guard<Unlocked> unlocked;
  module.def(
      "shutdown",
      [] {
        if (!runtime_is_open()) return;
        CpuView::end_all("vmart.shutdown");
        runtime().shutdown();
      },
      unlocked,
      "Ends the runtime and frees its memory. Raises Pinned while NumPy arrays or other views of "
      "the CPU exist. Optional: the end of the process does the same.");
  module.def(
      "description", [] { return runtime().description(); }, unlocked,
      "One line: the driver, the machine, and what the runtime may do there.");
  module.def(
      "places", [] { return runtime().places(); }, unlocked, "The places of the machine.");
  module.def(
      "stats", [] { return runtime().stats(); }, unlocked,
      "What the runtime holds, and its counters. Does not block.");
  module.def(
      "scheduler_stats", [] { return runtime().scheduler_stats(); }, unlocked,
      "Counters of the background scheduler.");
}

void bind_memory(nb::module_& module) {
  const nb::call_guard<Unlocked> unlocked;
  module.def(
      "allocation",
      [](std::uintptr_t pointer) { return runtime().allocation(pointer_of(pointer)); },
      nb::arg("pointer"), unlocked);
  module.def(
      "allocations", [] { return runtime().allocations(); }, unlocked,
      "All allocations and segments of pools.");
  module.def(
      "reserve",
      [](Place at, std::size_t nbytes, std::size_t chunk_bytes) {
        vma::reserve(at, nbytes, chunk_bytes);
      },
      nb::arg("at"), nb::arg("nbytes"), nb::arg("chunk_bytes") = 0, unlocked);
  module.def(
      "trim", [](Place at) { return vma::trim(at); }, nb::arg("at"), unlocked);
  module.def(
      "set_capacity",
      [](Place at, std::optional<std::size_t> nbytes) {
        vma::set_capacity(at, nbytes.value_or(std::numeric_limits<std::size_t>::max()));
      },
      nb::arg("at"), nb::arg("nbytes").none(), unlocked);
  module.def(
      "calibrate",
      [](std::size_t bytes_per_place, double time_limit, bool store) {
        CalibrateOptions options;
        options.bytes_per_place = bytes_per_place;
        options.time_limit =
            duration_of<std::chrono::milliseconds>(time_limit, "vmart.calibrate", "time_limit");
        options.store = store;
        const Calibration made = vma::calibrate(options);
        return std::pair(made.file, made.estimates);
      },
      nb::arg("bytes_per_place") = 0, nb::arg("time_limit") = 2.0, nb::arg("store") = true,
      unlocked);
}

void bind_parking(nb::module_& module) {
  const nb::call_guard<Unlocked> unlocked;
  module.def(
      "park",
      [](const std::string& tag, const MigrateOptions& how, std::optional<Place> to, bool drop) {
        ParkOptions options;
        options.to = to;
        options.how = how;
        options.contents = drop ? ParkContents::drop : ParkContents::keep;
        const Unlocked unlocked;
        return vma::park(tag, options);
      },
      nb::arg("tag"), nb::arg("options"), nb::arg("to") = nb::none(), nb::arg("drop") = false);
  module.def(
      "resume",
      [](const std::string& tag, const MigrateOptions& how, bool zeroed) {
        ParkOptions options;
        options.how = how;
        options.zeroed = zeroed;
        const Unlocked unlocked;
        return vma::resume(tag, options);
      },
      nb::arg("tag"), nb::arg("options"), nb::arg("zeroed") = true);
  module.def(
      "is_parked", [](const std::string& tag) { return vma::is_parked(tag); }, nb::arg("tag"),
      unlocked);
}

void bind_guards(nb::module_& module) {
  nb::class_<Guard>(module, "Guard", nb::type_slots(guard_slots),
                    "Keeps what made it until it is released.")
      .def("__repr__",
           [](const Guard& self) {
             return self.released() ? "<vmart.Guard, released>" : "<vmart.Guard, holding>";
           })
      .def_prop_ro("released", &Guard::released)
      .def("release", &Guard::release);
  nb::class_<Exported>(module, "Exported")
      .def("__repr__", &shown)
      .def_ro("path", &Exported::path)
      .def("release", [](Exported& self) { self.guard.release(); });
  module.def("pin", [](std::uintptr_t pointer) {
    const Unlocked unlocked;
    return Guard(vma::pin(pointer_of(pointer)));
  });
  module.def("read_only", [](std::uintptr_t pointer) {
    const Unlocked unlocked;
    return Guard(vma::read_only(pointer_of(pointer)));
  });
  module.def(
      "on_move",
      [](std::uintptr_t pointer, std::optional<nb::callable> before,
         std::optional<nb::callable> after) {
        std::vector<SharedObject> callbacks;
        const auto hook = [&](std::optional<nb::callable> callback, HookTime time) {
          if (callback) callbacks.emplace_back(std::move(*callback));
          return hook_of(callback ? std::optional(callbacks.back()) : std::nullopt, time);
        };
        MoveHooks hooks{hook(std::move(before), HookTime::before),
                        hook(std::move(after), HookTime::after)};
        const Unlocked unlocked;
        auto claim = FaultsOrHooks::claim(FaultsOrHooks::Kind::hooks, "vmart.on_move");
        return Guard(
            std::pair(std::move(claim), vma::on_move(pointer_of(pointer), std::move(hooks))),
            std::move(callbacks));
      },
      nb::arg("pointer"), nb::arg("before").none(), nb::arg("after").none());
  module.def("export_allocation", [](std::uintptr_t pointer) {
    const Unlocked unlocked;
    ExportedAllocation exported = vma::export_allocation(pointer_of(pointer));
    std::string path = exported.path();
    return Exported{std::move(path), Guard(std::move(exported))};
  });
  module.def(
      "note_export", [](std::uintptr_t pointer) { vma::note_export(pointer_of(pointer)); },
      nb::call_guard<Unlocked>());
}

void bind_uses(nb::module_& module) {
  const nb::call_guard<Unlocked> unlocked;
  module.def(
      "attach",
      [](std::uintptr_t stream, bool graphs) {
        vma::attach(reinterpret_cast<Stream>(stream),
                    graphs ? StreamWork::any : StreamWork::no_graphs);
      },
      nb::arg("stream"), nb::arg("graphs") = true, unlocked);
  module.def(
      "detach", [](std::uintptr_t stream) { vma::detach(reinterpret_cast<Stream>(stream)); },
      nb::arg("stream"), unlocked);
  module.def("copy_begin", &vmart_copy_begin, unlocked);
  module.def("copy_end", &vmart_copy_end);
  module.def("record_use",
             [](std::uintptr_t pointer, std::size_t nbytes, Place device, const std::string& kind) {
               vma::record_use(pointer_of(pointer), nbytes, device, use_of(kind));
             });
  module.def(
      "advise",
      [](std::uintptr_t pointer, std::size_t nbytes, Place device, std::optional<double> next_use,
         double passes, bool read_mostly, std::optional<double> until) {
        vma::advise(pointer_of(pointer), nbytes,
                    {device, from_now(next_use, "next_use"), passes, read_mostly,
                     from_now(until, "until")});
      },
      unlocked, nb::arg("pointer"), nb::arg("nbytes"), nb::arg("device"),
      nb::arg("next_use") = nb::none(), nb::arg("passes") = 1.0, nb::arg("read_mostly") = false,
      nb::arg("until") = nb::none());
  module.def(
      "make_stream",
      [](Place at) { return reinterpret_cast<std::uintptr_t>(vma::make_stream(at)); }, unlocked);
  module.def(
      "destroy_stream",
      [](std::uintptr_t stream) { vma::destroy_stream(reinterpret_cast<Stream>(stream)); },
      unlocked);
  module.def(
      "synchronize",
      [](std::uintptr_t stream) { vma::synchronize(reinterpret_cast<Stream>(stream)); }, unlocked);
}

void bind_scheduler(nb::module_& module) {
  const nb::call_guard<Unlocked> unlocked;
  module.def(
      "set_policy", [](const std::string& policy) { runtime().set_policy(policy); }, unlocked);
  module.def(
      "policy", [] { return runtime().policy(); }, unlocked,
      "The name of the policy that decides; empty without one.");
  module.def(
      "pause_scheduler", [] { runtime().pause_scheduler(); }, unlocked,
      "No policy is asked, and no move of one begins, until resume_scheduler.");
  module.def(
      "resume_scheduler", [] { runtime().resume_scheduler(); }, unlocked,
      "Ends a pause_scheduler.");
  module.def(
      "step_scheduler", [] { runtime().step_scheduler(); }, unlocked,
      "Collects uses and asks the policy once, now, for tests and simulated machines.");
  module.def(
      "explain", [](std::uintptr_t pointer) { return runtime().explain(pointer_of(pointer)); },
      unlocked);
  module.def(
      "drain",
      [](Place at, double deadline) {
        return vma::drain(
            at, {duration_of<std::chrono::milliseconds>(deadline, "vmart.drain", "deadline")});
      },
      nb::arg("at"), nb::arg("deadline") = 60.0, unlocked);
  module.def(
      "refill", [](Place at) { vma::refill(at); }, unlocked);
}

}  // namespace

void bind_runtime(nb::module_& module) {
  bind_infos(module);
  bind_outcomes(module);
  bind_opening(module);
  bind_memory(module);
  bind_parking(module);
  bind_guards(module);
  bind_uses(module);
  bind_scheduler(module);
}

}  // namespace vma
