// Policies written in Python. The scheduler calls them on its own thread, with the GIL. What they
// are given is valid during the call only: objects that Python keeps longer refuse to answer.
#include "python/core/bindings.hpp"
#include "python/core/interpreter.hpp"

#include <vma/error.hpp>
#include <vma/policy.hpp>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace vma {
namespace {

double seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

/// A value that lives as long as a call of the policy, for Python objects that may live longer.
template <typename Value>
class Lent {
 public:
  explicit Lent(Value* value) : value_(std::make_shared<Value*>(value)) {}
  void end() { *value_ = nullptr; }
  Value& get() const {
    if (*value_ != nullptr) return **value_;
    throw Error(ErrorKind::invalid_argument, "vmart.Policy",
                "the snapshot or plan of a call was used after the call");
  }

 private:
  std::shared_ptr<Value*> value_;
};

using LentSnapshot = Lent<const Snapshot>;

struct LentPlan {
  Lent<Plan> plan;
  LentSnapshot snapshot;
};

PlaceId place_of(const Snapshot& snapshot, Place at) {
  for (std::size_t number = 0; number < snapshot.places().size(); ++number) {
    if (snapshot.places()[number].place == at) return PlaceId{static_cast<std::uint8_t>(number)};
  }
  throw Error(ErrorKind::invalid_argument, "vmart.Policy",
              to_string(at) + " is no place of the machine");
}

using PlaceOrText = std::variant<Place, std::string>;  // As `vmart.place.as_place` takes them.

PlaceId place_of(const Snapshot& snapshot, const PlaceOrText& at) {
  const auto* const text = std::get_if<std::string>(&at);
  return place_of(snapshot, text == nullptr ? std::get<Place>(at) : parse_place(*text));
}

/// What `on_alloc` of the object returned.
PlaceId chosen_place(const Snapshot& snapshot, nb::handle object, nb::handle chosen) {
  PlaceOrText at;
  if (nb::try_cast(chosen, at)) return place_of(snapshot, at);
  const std::string name = nb::cast<std::string>(object.type().attr("__name__"));
  const std::string type = nb::cast<std::string>(chosen.type().attr("__name__"));
  throw Error(ErrorKind::invalid_argument, "vmart.Policy",
              name + ".on_alloc returned " + nb::repr(chosen).c_str() + ", a " + type +
                  "; it may return a place, such as \"gpu1\", or None");
}

/// A chunk as it was during the call.
struct SeenChunk {
  std::uint32_t id = 0;
  ChunkRow row;
  Place at;
  std::string tag;
  std::map<Place, std::pair<double, double>> users;  // Bytes read and written per second.
};

SeenChunk seen(const Snapshot& snapshot, std::uint32_t id) {
  if (id >= snapshot.chunks().size() || snapshot.chunks()[id].bytes == 0) {
    throw Error(ErrorKind::invalid_argument, "vmart.Policy",
                "there is no chunk " + std::to_string(id));
  }
  const ChunkId chunk{id};
  SeenChunk result{id,
                   snapshot.chunk(chunk),
                   snapshot.place(snapshot.chunk(chunk).at).place,
                   std::string(snapshot.tag(chunk)),
                   {}};
  snapshot.for_each_user(chunk, [&](PlaceId device, const Heat& heat) {
    result.users[snapshot.place(device).place] = {heat.read_short, heat.write_short};
  });
  return result;
}

/// What becomes of what Python raises: the text of a failure that the scheduler logs and counts; or
/// it is passed on to who called, a thread of Python, as nb::python_error.
enum class Raised { becomes_text, is_passed_on };

/// One policy object of Python. Only the calls that its class has are made.
class PythonPolicy final : public Policy {
 public:
  PythonPolicy(nb::object object, Raised raised)
      : raised_(raised),
        on_use_(nb::hasattr(object, "on_use")),
        on_tick_(nb::hasattr(object, "on_tick")),
        on_pressure_(nb::hasattr(object, "on_pressure")),
        on_alloc_(nb::hasattr(object, "on_alloc")),
        on_result_(nb::hasattr(object, "on_result")),
        on_gone_(nb::hasattr(object, "on_gone")),
        object_(std::move(object)) {}

  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override {
    if (!on_alloc_) return;
    calling(snapshot, [&](const LentSnapshot& lent) {
      const nb::object chosen = object_.get().attr("on_alloc")(
          request.bytes, snapshot.place(request.device).place, std::string(request.tag), lent);
      if (chosen.is_none()) return;
      const PlaceId place = chosen_place(snapshot, object_.get(), chosen);
      for (PlaceId& chunk : chunks) chunk = place;
    });
  }
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override {
    if (!on_use_ || use.hint != nullptr) return;  // A hint is no use.
    planning(snapshot, plan, [&](const LentSnapshot& lent, const LentPlan& lent_plan) {
      object_.get().attr("on_use")(index(use.chunk), snapshot.place(use.device).place,
                                   use.bytes_read, use.bytes_written, lent, lent_plan);
    });
  }
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override {
    if (!on_pressure_) return;
    planning(snapshot, plan, [&](const LentSnapshot& lent, const LentPlan& lent_plan) {
      object_.get().attr("on_pressure")(snapshot.place(pressure.at).place, pressure.bytes, lent,
                                        lent_plan);
    });
  }
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    if (!on_tick_) return;
    planning(snapshot, plan, [&](const LentSnapshot& lent, const LentPlan& lent_plan) {
      object_.get().attr("on_tick")(lent, lent_plan);
    });
  }
  void on_result(const MoveResult& result, const Snapshot& snapshot) override {
    if (!on_result_) return;
    calling(snapshot, [&](const LentSnapshot& lent) {
      object_.get().attr("on_result")(index(result.chunk), snapshot.place(result.from).place,
                                      snapshot.place(result.to).place, result.moved,
                                      seconds(result.took), seconds(result.stall), lent);
    });
  }
  void on_gone(ChunkId chunk) override {
    if (!on_gone_) return;
    Interpreter::call([&] { as_error([&] { object_.get().attr("on_gone")(index(chunk)); }); });
  }

 private:
  template <typename Body>
  void as_error(Body&& body) const {
    try {
      body();
    } catch (const nb::python_error& error) {
      if (raised_ == Raised::is_passed_on) throw;
      throw std::runtime_error(error.what());
    }
  }
  template <typename Body>
  void calling(const Snapshot& snapshot, Body&& body) {
    Interpreter::call([&] {
      LentSnapshot lent(&snapshot);
      const Ending ending{[&] { lent.end(); }};
      as_error([&] { body(lent); });
    });
  }
  template <typename Body>
  void planning(const Snapshot& snapshot, Plan& plan, Body&& body) {
    calling(snapshot, [&](const LentSnapshot& lent) {
      LentPlan lent_plan{Lent<Plan>(&plan), lent};
      const Ending ending{[&] { lent_plan.plan.end(); }};
      body(lent, lent_plan);
    });
  }

  template <typename Body>
  struct Ending {
    Body body;
    ~Ending() { body(); }
  };
  template <typename Body>
  Ending(Body) -> Ending<Body>;

  const Raised raised_;
  const bool on_use_, on_tick_, on_pressure_, on_alloc_, on_result_, on_gone_;
  const SharedObject object_;
};

/// `defaults` has the parameters of the class, all numbers. `passes_on`: what it raises, see
/// `Raised`.
PolicyKind kind_of(const std::string& name, const std::map<std::string, double>& defaults,
                   nb::object make, bool passes_on) {
  const Raised then = passes_on ? Raised::is_passed_on : Raised::becomes_text;
  PolicyKind kind;
  kind.name = name;
  kind.source = "Python";
  for (const auto& [parameter, otherwise] : defaults) {
    kind.parameters.push_back({parameter, PolicyParameter::Type::number, otherwise,
                               std::numeric_limits<double>::lowest(),
                               std::numeric_limits<double>::max(), "a parameter of the class"});
  }
  std::vector<std::string> names;
  for (const auto& entry : defaults) names.push_back(entry.first);
  kind.make = [names, then, kept = SharedObject(std::move(make))](const PolicyValues& values) {
    std::unique_ptr<Policy> made;
    std::string raised;
    const bool called = Interpreter::call([&] {
      try {
        nb::dict arguments;
        for (const std::string& name : names) arguments[name.c_str()] = values[name];
        made = std::make_unique<PythonPolicy>(nb::borrow(kept.get())(**arguments), then);
      } catch (const nb::python_error& error) {
        if (then == Raised::is_passed_on) throw;
        raised = error.what();
      }
    });
    if (!called && then == Raised::is_passed_on) {
      throw Error(
          ErrorKind::unsupported, "vmart.Policy",
          "policies of Python are not called in a forked child, nor while Python ends; start "
          "other processes by \"spawn\"");
    }
    // The scheduler replaces a policy that does not answer, also while the interpreter ends.
    if (!called) return std::make_unique<Policy>();
    if (!made) throw Error(ErrorKind::invalid_argument, "vmart.Policy", raised);
    return made;
  };
  return kind;
}

void bind_chunks(nb::module_& module) {
  nb::class_<PlaceState>(module, "PlaceState", "A place during a call of a policy.")
      .def("__repr__", &shown)
      .def_ro("at", &PlaceState::place)
      .def_ro("capacity_bytes", &PlaceState::capacity_bytes)
      .def_ro("used_bytes", &PlaceState::used_bytes)
      .def_prop_ro("free_bytes", &PlaceState::free_bytes)
      .def_ro("demand", &PlaceState::demand_bytes_s, "Bytes accessed here per second.");
  nb::class_<SeenChunk>(module, "Chunk", "A chunk during a call of a policy.")
      .def("__repr__", &shown)
      .def_ro("id", &SeenChunk::id)
      .def_ro("at", &SeenChunk::at)
      .def_ro("tag", &SeenChunk::tag)
      .def_ro("users", &SeenChunk::users, "Bytes read and written per second, by GPU.")
      .def_prop_ro("nbytes", [](const SeenChunk& self) { return self.row.bytes; })
      .def_prop_ro("allocation", [](const SeenChunk& self) { return self.row.allocation; })
      .def_prop_ro("slot", [](const SeenChunk& self) { return self.row.slot; })
      .def_prop_ro("last_use", [](const SeenChunk& self) { return seconds(self.row.last_use); })
      .def_prop_ro("last_move", [](const SeenChunk& self) { return seconds(self.row.last_move); })
      .def_prop_ro("movable", [](const SeenChunk& self) { return bool(self.row.movable); })
      .def_prop_ro("in_scope", [](const SeenChunk& self) { return bool(self.row.in_scope); })
      .def_prop_ro("moving", [](const SeenChunk& self) { return bool(self.row.moving); })
      .def_prop_ro("parked", [](const SeenChunk& self) { return bool(self.row.parked); });
}

void bind_calls(nb::module_& module) {
  nb::class_<LentSnapshot>(module, "Snapshot", "All chunks and places, during a call of a policy.")
      .def_prop_ro("now", [](const LentSnapshot& self) { return seconds(self.get().now()); })
      .def_prop_ro("changed",
                   [](const LentSnapshot& self) {
                     std::vector<std::uint32_t> ids;
                     for (const ChunkId chunk : self.get().changed()) {
                       ids.push_back(static_cast<std::uint32_t>(chunk));
                     }
                     return ids;
                   })
      .def_prop_ro("chunks",
                   [](const LentSnapshot& self) {
                     std::vector<std::uint32_t> ids;
                     for (std::size_t id = 0; id < self.get().chunks().size(); ++id) {
                       if (self.get().chunks()[id].bytes == 0) continue;
                       ids.push_back(static_cast<std::uint32_t>(id));
                     }
                     return ids;
                   })
      .def(
          "chunk", [](const LentSnapshot& self, std::uint32_t id) { return seen(self.get(), id); },
          nb::arg("id"))
      .def_prop_ro("places",
                   [](const LentSnapshot& self) {
                     const auto places = self.get().places();
                     return std::vector<PlaceState>(places.begin(), places.end());
                   })
      .def(
          "access_rate",
          [](const LentSnapshot& self, const PlaceOrText& device, const PlaceOrText& at) {
            const Snapshot& snapshot = self.get();
            return snapshot.costs().access_rate(place_of(snapshot, device), place_of(snapshot, at));
          },
          nb::arg("device"), nb::arg("at"), "Bytes per second; 0 if it cannot reach them.")
      .def(
          "move_time",
          [](const LentSnapshot& self, const PlaceOrText& source, const PlaceOrText& target,
             std::uint64_t nbytes) {
            const Snapshot& snapshot = self.get();
            return seconds(snapshot.costs().move_time(place_of(snapshot, source),
                                                      place_of(snapshot, target), nbytes));
          },
          nb::arg("source"), nb::arg("target"), nb::arg("nbytes"));
  nb::class_<LentPlan>(module, "Plan", "What a policy proposes; the planner checks it.")
      .def(
          "move",
          [](const LentPlan& self, std::uint32_t chunk, const PlaceOrText& to, double value,
             const std::string& reason) {
            self.plan.get().move(ChunkId{chunk}, place_of(self.snapshot.get(), to), value, reason);
          },
          nb::arg("chunk"), nb::arg("to"), nb::arg("value"), nb::arg("reason"))
      .def(
          "evict",
          [](const LentPlan& self, std::uint32_t chunk, const PlaceOrText& to,
             const std::string& reason) {
            self.plan.get().evict(ChunkId{chunk}, place_of(self.snapshot.get(), to), reason);
          },
          nb::arg("chunk"), nb::arg("to"), nb::arg("reason"))
      .def("decline", [](const LentPlan& self) { self.plan.get().decline(); });
}

}  // namespace

void bind_policies(nb::module_& module) {
  bind_chunks(module);
  bind_calls(module);
  nb::class_<PolicyKind>(module, "PolicyKind").def_ro("name", &PolicyKind::name);
  module.def("policy_kind", &kind_of, nb::arg("name"), nb::arg("defaults"), nb::arg("make"),
             nb::arg("passes_on") = false);
}

}  // namespace vma
