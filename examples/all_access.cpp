// A pitfall of moving memory by hand: an unmap discards all access rights, and a grant names
// devices individually. Every call succeeds, but the next kernel on a device that was not named
// fails and makes CUDA unusable in the process. So the naive half runs in its own process.
#include "gpus.hpp"
#include "naive_sequence.hpp"

#include <fmt/format.h>

#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::size_t bytes = 16 << 20;
constexpr Gpus::Word seed = 3;
constexpr std::string_view naive_argument = "naive";

/// Starts this program again, before this process uses CUDA. Returns true if the pitfall occurred.
bool naive_half_fails(char* program) {
  std::string self = "/proc/self/exe";
  std::string argument(naive_argument);
  char* const arguments[] = {program, argument.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ) != 0) return false;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool ours_works() {
  vma::Runtime& runtime = vma::runtime();
  Gpus gpus(runtime);
  const vma::Place to = gpus.count() > 1 ? vma::gpu(1) : vma::host(0);
  fmt::print("\nvmart, on {}\n", runtime.description());
  void* data = runtime.alloc(bytes, vma::gpu(0));
  gpus.fill(data, bytes, seed);
  fmt::print("  alloc at gpu(0), kernel on gpu(0)        ran\n");
  runtime.migrate(data, to);
  fmt::print("  migrate to {:<10}                    ok\n", to_string(to));
  bool right = true;
  for (const Gpus::Finding& found : gpus.read(data, bytes, seed)) {
    fmt::print("  kernel on {:<10}                     ran, {} words wrong\n", to_string(found.gpu),
               found.wrong_words);
    right = right && found.wrong_words == 0;
  }
  runtime.free(data);
  return right;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && argv[1] == naive_argument) return naive_sequence() ? 0 : 1;
  if (!naive_half_fails(argv[0])) {
    fmt::print("the naive sequence did not fail as expected\n");
    return 1;
  }
  return ours_works() ? 0 : 1;
} catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
