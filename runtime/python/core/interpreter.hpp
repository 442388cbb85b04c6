#pragma once

#include <nanobind/nanobind.h>

#include <cxxabi.h>

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

  /// Calls `body`, which may wait for the GIL on a thread of Python. Until 3.14, Python ends a
  /// thread that wants the GIL of an interpreter that ends by pthread_exit, whose unwinding would
  /// abort the process at the first noexcept frame. Such a thread sleeps here until the process has
  /// ended.
  template <typename Body>
  static decltype(auto) outliving(Body&& body) {
    try {
      return std::forward<Body>(body)();
    } catch (abi::__forced_unwind&) {  // Must not be left: it would be an exception not rethrown.
      sleep_until_the_end();
    }
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
  [[noreturn]] static void sleep_until_the_end();
  struct Inside {
    ~Inside() { leave(); }
  };

  static constexpr unsigned ended = 1u << 31;
  static std::atomic<unsigned> state;  // The number of calls in Python; `ended` is a bit of it.
};

/// Releases the GIL while it exists, where the thread holds it, and is the only way to do so here:
/// a daemon thread may be in any call when the interpreter ends (`Interpreter::outliving`).
class Unlocked {
 public:
  Unlocked() noexcept : state_(has_gil() ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_ != nullptr) Interpreter::outliving([this] { PyEval_RestoreThread(state_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  static bool has_gil() noexcept {
#ifdef Py_LIMITED_API
    // The stable ABI lacks the other call. From CPython 3.12 on, this one answers for the calling
    // thread.
    return PyThreadState_GetDict() != nullptr;
#else
    return PyGILState_Check() != 0;
#endif
  }

  PyThreadState* const state_;
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
