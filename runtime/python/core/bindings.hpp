#pragma once

#include <nanobind/nanobind.h>

namespace vma {

// Each adds the classes and functions of one part of the interface to the module, in this order.
void bind_errors(nanobind::module_& module);
void bind_places(nanobind::module_& module);
void bind_moves(nanobind::module_& module);
void bind_allocations(nanobind::module_& module);
void bind_pools(nanobind::module_& module);
void bind_numpy(nanobind::module_& module);
void bind_policies(nanobind::module_& module);
void bind_runtime(nanobind::module_& module);

}  // namespace vma
