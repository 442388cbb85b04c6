// What an attacker would have loaded: writes the user whose rights it got.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

__attribute__((constructor)) void loaded() {
  const char* const path = getenv("VMART_TEST_PROOF");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  std::fprintf(file, "loaded with the rights of user %d\n", static_cast<int>(geteuid()));
  std::fclose(file);
}

}  // namespace
