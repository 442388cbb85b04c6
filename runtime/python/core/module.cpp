// The extension `vmart._core`: the C++ interface for the Python files of the package, which are
// what users call. Everything acts on the process-wide runtime. The GIL is released in each call
// that may block; threads of the runtime enter Python through `Interpreter` alone.
#include "python/core/bindings.hpp"
#include "python/core/interpreter.hpp"

#include <vma/vmart.h>

#include <nanobind/stl/string.h>

#include <dlfcn.h>

#include <string>

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
