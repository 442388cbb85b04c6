// Notes what it is called with, in the layout that NVIDIA's header gives the attributes.
#include <cstdint>
#include <string>

namespace {

struct Attributes {
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type, reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  const char* message;
};

std::string calls;
int domain;

}  // namespace

extern "C" {

const char* fake_nvtx_calls() {
  return calls.c_str();
}
int nvtxRangePushA(const char* name) {
  calls += std::string("plain ") + name + ";";
  return 0;
}
int nvtxRangePop() {
  calls += "plain pop;";
  return 0;
}
void* nvtxDomainCreateA(const char* name) {
  calls += std::string("domain ") + name + ";";
  return &domain;
}
int nvtxDomainRangePushEx(void* in, const Attributes* attributes) {
  const bool known = in == &domain && attributes->version == 2 &&
                     attributes->size == sizeof(Attributes) && attributes->message_type == 1;
  calls += known ? std::string("push ") + attributes->message + ";" : std::string("unknown;");
  return 0;
}
int nvtxDomainRangePop(void* in) {
  calls += in == &domain ? "pop;" : "unknown;";
  return 0;
}
}
