#pragma once

#include <vma/error.hpp>

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace vma {

/// Python's times are seconds. Throws: Error{invalid_argument} for what is negative, not finite or
/// more than a year.
template <typename Duration>
Duration duration_of(double value, const char* call, const char* name) {
  using Seconds = std::chrono::duration<double>;
  const Seconds most = std::chrono::hours(24 * 365);
  if (!(value >= 0) || Seconds(value) > most) {
    throw Error(ErrorKind::invalid_argument, call,
                std::string(name) + " is " + std::to_string(value) + " s");
  }
  return std::chrono::ceil<Duration>(Seconds(value));
}

/// The `__repr__` of objects that hold fields. `self` has the type of a class of the module.
nanobind::str shown(nanobind::handle self);
/// A number of bytes or an integer that a method got, checked by `vmart.arguments`: what nanobind
/// refuses, it refuses with the signatures of all overloads. Throws: what Python raises.
std::size_t size_of(nanobind::handle value, const char* name, const char* call);
std::uintptr_t integer_of(nanobind::handle value, const char* name, const char* call);

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
