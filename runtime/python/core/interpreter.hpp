#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <utility>

namespace vma {

/// Lets threads of the runtime call Python, and ends that before the interpreter does: a thread
/// that asks for the GIL of an interpreter that ends never returns, or crashes.
class Interpreter {
 public:
  /// Calls `body` with the GIL held; not at all, once the interpreter has begun to end. May be
  /// called with or without the GIL. Returns whether it was called.
  template <typename Body>
  static bool call(Body&& body) {
    if (!enter()) return false;
    const Inside inside;
    const nanobind::gil_scoped_acquire acquire;
    std::forward<Body>(body)();
    return true;
  }

  /// When this returns, no thread of the runtime is in Python and none enters it any more. Requires
  /// the GIL; releases it while it waits.
  static void end();
  /// In forked children nobody enters any more: who was inside is not there to leave.
  static void end_in_children();

 private:
  /// Never waits, so that a thread with the GIL does not keep others from leaving.
  static bool enter();
  static void leave();
  struct Inside {
    ~Inside() { leave(); }
  };

  static constexpr unsigned ended = 1u << 31;
  static std::atomic<unsigned> state;  // The number of calls in Python; `ended` is a bit of it.
};

/// A Python object that threads of the runtime keep: it is copied without the GIL and released with
/// it, or leaked once the interpreter ends.
class SharedObject {
 public:
  explicit SharedObject(nanobind::object object) : object_(object.release().ptr(), release) {}
  nanobind::handle get() const { return object_.get(); }

 private:
  static void release(PyObject* object) {
    Interpreter::call([object] { Py_DECREF(object); });
  }
  std::shared_ptr<PyObject> object_;
};

}  // namespace vma
