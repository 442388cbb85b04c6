// Exceptions of the library become those of `vmart.errors`, one class for each kind.
#include "python/core/bindings.hpp"

#include <vma/error.hpp>
#include <vma/group.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

namespace nb = nanobind;

namespace vma {
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

/// Runs no code of Python, whose interpreter may end a thread at any line: inside a handler of C++,
/// as this is, that would abort the process (see `Interpreter::outliving`).
nb::object to_python(const Error& error) {
  const nb::object made = class_of(error.kind());
  auto* const type = reinterpret_cast<PyTypeObject*>(made.ptr());
  const nb::tuple arguments = nb::make_tuple(error.what());
  nb::object object = nb::steal(type->tp_new(type, arguments.ptr(), nullptr));
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

}  // namespace vma
