// The extension `vmart._core`: the C++ interface for the Python files of the package, which are
// what users call. Everything acts on the process-wide runtime. The GIL is released in each call
// that may block; threads of the runtime enter Python through `Interpreter` alone.
#include "python/core/bindings.hpp"
#include "python/core/interpreter.hpp"

#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/migration.hpp>
#include <vma/place.hpp>
#include <vma/vmart.h>

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <dlfcn.h>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace nb = nanobind;

namespace vma {

void bind_places(nb::module_& module) {
  nb::class_<Place>(module, "Place",
                    "A place for memory: the HBM of a GPU, or the memory of a host NUMA node.")
      .def(
          "__init__",
          [](Place* self, const std::string& text) { new (self) Place(parse_place(text)); },
          nb::arg("text"),
          "From \"gpu0\", \"gpu:0\", \"gpu(0)\", \"cuda:0\", \"host0\", \"cpu\" and so on.")
      .def_prop_ro("kind",
                   [](const Place& self) { return self.kind == Place::Kind::gpu ? "gpu" : "host"; })
      .def_ro("ordinal", &Place::ordinal)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(nb::self < nb::self)
      .def("__hash__", [](const Place& self) { return std::hash<Place>()(self); })
      .def("__str__", [](const Place& self) { return to_string(self); })
      .def("__repr__", [](const Place& self) { return "vmart." + to_string(self); })
      .def("__reduce__", [](const Place& self) {
        return nb::make_tuple(nb::type<Place>(), nb::make_tuple(to_string(self)));
      });
  module.def(
      "gpu", [](unsigned ordinal) { return gpu(static_cast<int>(ordinal)); }, nb::arg("ordinal"),
      "The HBM of a GPU, by CUDA's ordinal.");
  module.def(
      "host", [](unsigned node) { return host(static_cast<int>(node)); }, nb::arg("node") = 0,
      "The memory of a host NUMA node.");

  nb::class_<Extent>(module, "Extent", "Adjacent bytes of an allocation that lie at one place.")
      .def("__init__",
           [](Extent* self, std::size_t offset, std::size_t nbytes, Place at,
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

namespace {

nb::object report_of(const Error& error) {
  if (error.group() != nullptr) return nb::cast(*error.group());
  if (error.report() != nullptr) return nb::cast(*error.report());
  return nb::none();
}

nb::object class_of(ErrorKind kind) {
  constexpr const char* name = "vmart.errors";
  nb::object module = nb::steal(PyImport_GetModule(nb::str(name).ptr()));
  if (!module.is_valid()) module = nb::module_::import_(name);
  return module.attr("_CLASSES").attr("get")(std::string(to_string(kind)), module.attr("Error"));
}

/// Exceptions of the library become those of `vmart.errors`, one class for each kind. Runs no code
/// of Python, whose interpreter may end a thread at any line: inside a handler of C++,
/// as this is, that would abort the process (see `Interpreter::outliving`).
nb::object to_python(const Error& error) {
  const nb::object made = class_of(error.kind());
  auto* const type = reinterpret_cast<PyTypeObject*>(made.ptr());
  const nb::tuple arguments = nb::make_tuple(error.what());
  const auto make = reinterpret_cast<newfunc>(PyType_GetSlot(type, Py_tp_new));
  nb::object object = nb::steal(make(type, arguments.ptr(), nullptr));
  if (!object.is_valid()) throw nb::python_error();
  object.attr("args") = arguments;  // Of the classes that are also an OSError, which leave it out.
  object.attr("_call") = error.call();
  object.attr("native") = error.native();
  object.attr("report") = report_of(error);
  object.attr("_of_library") = true;
  return object;
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      const nb::object object = to_python(error);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())), object.ptr());
    }
  });
  nb::class_<Error>(module, "RequestError", "Why one request of a migration did not move in full.")
      .def_prop_ro("kind", [](const Error& error) { return std::string(to_string(error.kind())); })
      .def("__str__", [](const Error& error) { return std::string(error.what()); });
}

// What methods of the extension leave to Python files: checks of arguments, and `repr`.
namespace {

/// Of an ordinary int, without a call of Python: blocks of pools are allocated at a high rate.
bool is_plain(nb::handle value, std::size_t& number) {
  if (!PyLong_CheckExact(value.ptr())) return false;
  number = PyLong_AsSize_t(value.ptr());
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

nb::object checks() {
  return nb::module_::import_("vmart.arguments");
}

}  // namespace

std::size_t size_of(nb::handle value, const char* name, const char* call) {
  if (std::size_t number = 0; is_plain(value, number)) return number;
  return nb::cast<std::size_t>(checks().attr("size")(value, name, call));
}

std::uintptr_t integer_of(nb::handle value, const char* name, const char* call) {
  if (std::size_t number = 0; is_plain(value, number)) return number;
  return nb::cast<std::uintptr_t>(checks().attr("integer")(value, name, call, 0, UINTPTR_MAX));
}

nb::str shown(nb::handle self) {
  return nb::borrow<nb::str>(nb::module_::import_("vmart.reprs").attr("fields")(self));
}

}  // namespace vma

namespace {

/// PyTorch, CuPy and Numba load the library once more, by its path.
std::string library_path() {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&vmart_version), &library) == 0) return {};
  return library.dli_fname;
}

/// Python loads extensions, and with them the library, so that nobody else sees their symbols:
/// shared objects with policies in C++ would have to link the library to find it.
void show_library_to_policies() {
  dlopen(library_path().c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace

// nanobind's entry gets another name, because its first lines take the types of the extension away
// from the interpreter that has it.
#define PyInit__core PyInit__core_of_nanobind
NB_MODULE(_core, module) {
  using namespace vma;
  // A policy or a callback may outlive the interpreter, on purpose.
  nanobind::set_leak_warnings(false);
  show_library_to_policies();
  module.attr("version") = vmart_version();
  bind_errors(module);
  bind_places(module);
  bind_moves(module);
  bind_allocations(module);
  bind_pools(module);
  bind_numpy(module);
  bind_policies(module);
  bind_runtime(module);
  module.def("library_path", &library_path, "The file of libvmart that is loaded.");
  module.def("end_callbacks", &Interpreter::end,
             "No thread of the runtime calls Python after this. Registered with atexit.");
  nanobind::module_::import_("atexit").attr("register")(module.attr("end_callbacks"));
  Interpreter::end_in_children();
}
#undef PyInit__core

PyMODINIT_FUNC PyInit__core() {
  constexpr std::int64_t main_interpreter = 0;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == main_interpreter)
    return PyInit__core_of_nanobind();
  PyErr_SetString(
      PyExc_ImportError,
      "vmart works in the main interpreter only: memory, streams and callbacks are those "
      "of the process. Import it there, or use processes");
  return nullptr;
}
