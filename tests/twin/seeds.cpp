#include "twin/seeds.hpp"

#include <cstdlib>
#include <string_view>

namespace vma {

std::uint64_t first_seed() {
  const char* text = std::getenv("VMART_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

bool long_run() {
  const char* text = std::getenv("VMART_LONG");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace vma
