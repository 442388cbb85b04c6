#include "base/nvtx.hpp"

#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/process_exit.hpp"

#ifdef VMART_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#include <exception>

namespace vma {
namespace {

bool wanted_by_environment() {
  try {
    return environment_flag("VMART_NVTX").value_or(false);
  } catch (const std::exception& error) {
    // An invalid setting for profilers must not end a program.
    log(LogLevel::warn, "{}", error.what());
    return false;
  }
}

}  // namespace

const Nvtx& Nvtx::process() {
  // Never destroyed, because threads may use it during exit.
  static Immortal<Nvtx> nvtx(wanted_by_environment());
  return *nvtx;
}

#ifdef VMART_HAS_NVTX

Nvtx::Nvtx(bool wanted) noexcept {
  if (wanted) domain_ = nvtxDomainCreateA("vmart");  // Null if no tool is loaded.
}

void Nvtx::push(const char* name) const noexcept {
  if (!loaded()) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(static_cast<nvtxDomainHandle_t>(domain_), &attributes);
}

void Nvtx::pop() const noexcept {
  if (loaded()) nvtxDomainRangePop(static_cast<nvtxDomainHandle_t>(domain_));
}

#else

Nvtx::Nvtx(bool wanted) noexcept {
  if (wanted) {
    log(LogLevel::warn,
        "VMART_NVTX=1 has no effect: this vmart was built without nvtx3/nvToolsExt.h");
  }
}
void Nvtx::push(const char*) const noexcept {}
void Nvtx::pop() const noexcept {}

#endif

}  // namespace vma
