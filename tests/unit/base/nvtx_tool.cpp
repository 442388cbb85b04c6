// A tool that NVTX loads from NVTX_INJECTION64_PATH. Records the calls that it receives.
#include <nvtx3/nvToolsExt.h>

#include <string>

namespace {

std::string calls;
int domain;

nvtxDomainHandle_t create_domain(const char* name) {
  calls += std::string("domain ") + name + ";";
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

int push(nvtxDomainHandle_t in, const nvtxEventAttributes_t* attributes) {
  const bool known = in == reinterpret_cast<nvtxDomainHandle_t>(&domain) &&
                     attributes->version == NVTX_VERSION &&
                     attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  calls += known ? std::string("push ") + attributes->message.ascii + ";" : std::string("unknown;");
  return 0;
}

int pop(nvtxDomainHandle_t in) {
  calls += in == reinterpret_cast<nvtxDomainHandle_t>(&domain) ? "pop;" : "unknown;";
  return 0;
}

template <typename Function>
void hook(NvtxFunctionTable table, unsigned int size, NvtxCallbackIdCore2 which,
          Function function) {
  if (which < size) *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" {

const char* nvtx_tool_calls() {
  return calls.c_str();
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  hook(table, size, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  hook(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
  hook(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
}
