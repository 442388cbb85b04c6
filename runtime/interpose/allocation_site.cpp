#include "interpose/allocation_site.hpp"

#include "interpose/settings.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

// Names of CPython's C interface, which this library is not linked with. All are public, except
// `_PyThreadState_UncheckedGet`, which 3.13 has made public under another name.
// clang-format off
#define VMART_RUN_PYTHON_CALLS(ROW)                              \
  ROW(Py_IsInitialized, int (*)())                               \
  ROW(PyGILState_Check, int (*)())                               \
  ROW(PyGILState_GetThisThreadState, void* (*)())                \
  ROW(PyErr_Occurred, void* (*)())                               \
  ROW(PyErr_Clear, void (*)())                                   \
  ROW(PyGC_Disable, int (*)())                                   \
  ROW(PyGC_Enable, int (*)())                                    \
  ROW(PyThreadState_GetFrame, void* (*)(void*))                  \
  ROW(PyFrame_GetBack, void* (*)(void*))                         \
  ROW(PyFrame_GetCode, void* (*)(void*))                         \
  ROW(PyFrame_GetLineNumber, int (*)(void*))                     \
  ROW(PyObject_GetAttrString, void* (*)(void*, const char*))     \
  ROW(PyUnicode_AsUTF8, const char* (*)(void*))                  \
  ROW(Py_DecRef, void (*)(void*))
// clang-format on

namespace vma::interpose {
namespace {

// --- Python

struct Python {
#define ROW(call, type) decltype(static_cast<type>(nullptr)) call = nullptr;
  VMART_RUN_PYTHON_CALLS(ROW)
#undef ROW
  void* (*current)() = nullptr;

  /// False without an interpreter, or if it lacks a call.
  bool find() noexcept {
#define ROW(name, type)                                                \
  name = reinterpret_cast<decltype(name)>(dlsym(RTLD_DEFAULT, #name)); \
  if (name == nullptr) return false;
    VMART_RUN_PYTHON_CALLS(ROW)
#undef ROW
    for (const char* name : {"PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet"}) {
      if (current == nullptr) {
        current = reinterpret_cast<decltype(current)>(dlsym(RTLD_DEFAULT, name));
      }
    }
    return current != nullptr;
  }

  /// The state of this thread if it holds the lock; else null. `PyGILState_Check` alone says yes
  /// to every thread once a subinterpreter exists.
  void* state() const noexcept {
    if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return nullptr;
    void* const state = current();
    return state == PyGILState_GetThisThreadState() ? state : nullptr;
  }
};

/// Owns a reference.
class Object {
 public:
  Object(const Python& python, void* object) noexcept : python_(python), object_(object) {}
  ~Object() {
    if (object_ != nullptr) python_.Py_DecRef(object_);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  void* get() const noexcept { return object_; }

 private:
  const Python& python_;
  void* const object_;
};

std::string text_of(const Python& python, void* object, const char* attribute) {
  const Object value(python, python.PyObject_GetAttrString(object, attribute));
  const char* const text = value.get() != nullptr ? python.PyUnicode_AsUTF8(value.get()) : nullptr;
  if (text == nullptr) python.PyErr_Clear();
  return text != nullptr ? text : "?";
}

std::string describe(const Python& python, void* frame) {
  const Object code(python, python.PyFrame_GetCode(frame));
  const std::string path = text_of(python, code.get(), "co_filename");
  return path.substr(path.rfind('/') + 1) + ":" +
         std::to_string(python.PyFrame_GetLineNumber(frame)) + " " +
         text_of(python, code.get(), "co_name");
}

/// While it exists, no collection runs, which could run code of the program.
class NoCollection {
 public:
  explicit NoCollection(const Python& python) noexcept
      : python_(python), was_on_(python.PyGC_Disable() != 0) {}
  ~NoCollection() {
    if (was_on_) python_.PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  const Python& python_;
  const bool was_on_;
};

/// The frames of CPython 3.10 or newer that the calling thread is in, as "train.py:12 forward",
/// innermost first. None if the process has no such interpreter, if the thread does not hold its
/// lock, as in a call that has released it, or while an exception is being handled in C. Runs no
/// code of the program, and takes no lock.
std::vector<std::string> python_frames(std::size_t most) {
  std::vector<std::string> frames;
  Python python;  // Looked up each time: an interpreter may be loaded at any time.
  if (!python.find()) return frames;
  void* const state = python.state();
  if (state == nullptr || python.PyErr_Occurred() != nullptr) return frames;
  const NoCollection none(python);
  void* frame = python.PyThreadState_GetFrame(state);
  while (frame != nullptr) {
    const Object held(python, frame);
    if (frames.size() == most) break;
    frames.push_back(describe(python, frame));
    frame = python.PyFrame_GetBack(frame);
  }
  if (python.PyErr_Occurred() != nullptr) python.PyErr_Clear();  // No memory for a frame.
  return frames;
}

// --- Machine code

constexpr std::size_t frames_max = 32;  // With our own, which are left out.
constexpr std::size_t shown_max = 12;
constexpr std::size_t name_max = 96;  // Names of templates can have thousands of letters.

struct Stack {
  std::array<std::uintptr_t, frames_max> addresses{};
  std::size_t size = 0;
};

_Unwind_Reason_Code take(_Unwind_Context* context, void* data) {
  Stack& stack = *static_cast<Stack*>(data);
  // A return address is behind its call, and may be in the next function.
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || stack.size == frames_max) return _URC_END_OF_STACK;
  stack.addresses[stack.size++] = address - 1;
  return _URC_NO_REASON;
}

std::string name_of(const Dl_info& info, std::uintptr_t address) {
  const std::string_view path = info.dli_fname != nullptr ? info.dli_fname : "?";
  std::string name(path.substr(path.rfind('/') + 1));
  char offset[32];
  if (info.dli_sname == nullptr) {
    std::snprintf(offset, sizeof offset, "+0x%zx",
                  address - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
    return name + offset;
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), std::free);
  const std::string_view symbol = plain ? plain.get() : info.dli_sname;
  return name + " " + std::string(symbol.substr(0, name_max));
}

void add(std::string& site, std::string_view frame) {
  if (!site.empty()) site += " < ";
  site += frame;
}

}  // namespace

std::string allocation_site(std::size_t bytes) {
  std::string site;
  const std::size_t wanted_from = Settings::get().site_bytes;
  if (wanted_from == 0 || bytes < wanted_from) return site;
  for (const std::string& frame : python_frames(shown_max)) add(site, frame);
  Stack stack;
  _Unwind_Backtrace(take, &stack);
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&allocation_site), &own);
  std::size_t shown = 0;
  for (std::size_t i = 0; i < stack.size && shown < shown_max; ++i) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(stack.addresses[i]), &info) == 0) continue;
    if (info.dli_fbase == own.dli_fbase) continue;
    add(site, name_of(info, stack.addresses[i]));
    ++shown;
  }
  return site;
}

}  // namespace vma::interpose
