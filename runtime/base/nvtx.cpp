#include "base/nvtx.hpp"

#include "base/environment.hpp"
#include "base/log.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <exception>

namespace vma {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

const char* library_of_environment() {
  try {
    return environment_flag("VMART_NVTX").value_or(false) ? "libnvToolsExt.so.1" : nullptr;
  } catch (const std::exception& error) {  // A profiler that is not told must not end a program.
    log(LogLevel::warn, "{}", error.what());
    return nullptr;
  }
}

}  // namespace

struct Nvtx::Attributes {
  std::uint16_t version = 2;
  std::uint16_t size = sizeof(Attributes);
  std::uint32_t category = 0;
  std::int32_t color_type = 0;
  std::uint32_t color = 0;
  std::int32_t payload_type = 0;
  std::int32_t reserved = 0;
  std::uint64_t payload = 0;
  std::int32_t message_type = 1;  // A string of bytes.
  const char* message = nullptr;
};

const Nvtx& Nvtx::process() {
  static const Nvtx& nvtx = *new Nvtx(library_of_environment());  // For threads beside an exit.
  return nvtx;
}

Nvtx::Nvtx(const char* library) noexcept {
  static_assert(sizeof(Attributes) == 48, "the size tells the library the version");
  if (library == nullptr) return;
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return;
  find(handle, "nvtxRangePushA", push_);
  find(handle, "nvtxRangePop", pop_);
  void* (*create)(const char*) = nullptr;
  find(handle, "nvtxDomainCreateA", create);
  find(handle, "nvtxDomainRangePushEx", domain_push_);
  find(handle, "nvtxDomainRangePop", domain_pop_);
  if (create != nullptr && domain_push_ != nullptr && domain_pop_ != nullptr) {
    domain_ = create("vmart");
  }
}

void Nvtx::push(const char* name) const noexcept {
  if (!loaded()) return;
  if (domain_ == nullptr) {
    push_(name);
    return;
  }
  Attributes attributes;
  attributes.message = name;
  domain_push_(domain_, &attributes);
}

void Nvtx::pop() const noexcept {
  if (!loaded()) return;
  if (domain_ == nullptr) {
    pop_();
  } else {
    domain_pop_(domain_);
  }
}

}  // namespace vma
