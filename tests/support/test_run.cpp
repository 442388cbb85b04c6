#include "support/test_run.hpp"

#include <cstdlib>
#include <string_view>

namespace vma {

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t run_seed() {
  return number_from_environment("VMART_SEED", 1);
}

bool play_suspends(std::uint64_t seed) {
  const char* text = std::getenv("VMART_STOP");
  return text != nullptr ? std::string_view(text) == "suspend" : seed % 2 == 1;
}

bool long_run() {
  const char* text = std::getenv("VMART_LONG");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace vma
