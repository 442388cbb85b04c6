// What methods of the extension leave to Python files: checks of arguments, and `repr`.
#include "python/core/bindings.hpp"

namespace nb = nanobind;

namespace vma {
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
