#include "interpose/sites/allocation_site.hpp"

#include "interpose/sites/python_frames.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace vma::interpose {
namespace {

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

std::string allocation_site() {
  std::string site;
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
