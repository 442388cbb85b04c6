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

nb::object to_python(const Error& error) {
  nb::object report = nb::none();
  if (error.group() != nullptr) {
    report = nb::cast(*error.group());
  } else if (error.report() != nullptr) {
    report = nb::cast(*error.report());
  }
  const std::string kind(to_string(error.kind()));
  return nb::module_::import_("vmart.errors")
      .attr("error_of")(kind, error.what(), error.call(), error.native(), report);
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
