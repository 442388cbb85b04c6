#include "python/core/bindings.hpp"

#include <vma/location.hpp>
#include <vma/migration.hpp>

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <string>

namespace nb = nanobind;

namespace vma {

void bind_places(nb::module_& module) {
  nb::class_<Location>(module, "Location",
                       "A place for memory: the HBM of a GPU, or the memory of a host NUMA node.")
      .def(
          "__init__",
          [](Location* self, const std::string& text) {
            new (self) Location(parse_location(text));
          },
          nb::arg("text"),
          "From \"gpu0\", \"gpu:0\", \"gpu(0)\", \"cuda:0\", \"host0\", \"cpu\" and so on.")
      .def_prop_ro(
          "kind",
          [](const Location& self) { return self.kind == Location::Kind::gpu ? "gpu" : "host"; })
      .def_ro("ordinal", &Location::ordinal)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(nb::self < nb::self)
      .def("__hash__", [](const Location& self) { return std::hash<Location>()(self); })
      .def("__str__", [](const Location& self) { return to_string(self); })
      .def("__repr__", [](const Location& self) { return "vmart." + to_string(self); });
  module.def(
      "gpu", [](unsigned ordinal) { return gpu(static_cast<int>(ordinal)); }, nb::arg("ordinal"),
      "The HBM of a GPU, by CUDA's ordinal.");
  module.def(
      "host", [](unsigned node) { return host(static_cast<int>(node)); }, nb::arg("node") = 0,
      "The memory of a host NUMA node.");

  nb::class_<Extent>(module, "Extent", "Adjacent bytes of an allocation that lie at one place.")
      .def("__init__",
           [](Extent* self, std::size_t offset, std::size_t nbytes, Location at,
              std::uint64_t generation, bool dropped) {
             new (self) Extent{offset, nbytes, at, generation, dropped};
           })
      .def_ro("offset", &Extent::offset)
      .def_ro("nbytes", &Extent::bytes)
      .def_ro("at", &Extent::at)
      .def_ro("generation", &Extent::generation)
      .def_ro("dropped", &Extent::dropped)
      .def("__repr__", [](const Extent& self) {
        return "<vmart.Extent of " + std::to_string(self.bytes) + " bytes at offset " +
               std::to_string(self.offset) + ", " + to_string(self.at) +
               (self.dropped ? ", dropped>" : ">");
      });
}

}  // namespace vma
