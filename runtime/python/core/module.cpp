// The extension `vmart._core`: the C++ interface for the Python files of the package, which are
// what users call. Everything acts on the process-wide runtime. The GIL is released in each call
// that may block; threads of the runtime enter Python through `Interpreter` alone.
#include "python/core/bindings.hpp"
#include "python/core/interpreter.hpp"

#include <vma/vmart.h>

#include <nanobind/stl/string.h>

#include <dlfcn.h>

#include <string>

namespace nb = nanobind;

// What methods of the extension leave to Python files: checks of arguments, and `repr`.
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
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit__core_of_nanobind();
  PyErr_SetString(
      PyExc_ImportError,
      "vmart works in the main interpreter only: memory, streams and callbacks are those "
      "of the process. Import it there, or use processes");
  return nullptr;
}
