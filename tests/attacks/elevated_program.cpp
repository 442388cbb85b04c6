// Stands for any set-user-ID program that is linked with the library: opens a runtime, allocates,
// moves and reads statistics. Leaves to the environment what the program does not set. Its argument
// is the machine.
#include <vma/vma.hpp>

#include <unistd.h>

#include <cstdio>
#include <thread>

int main(int, char** arguments) {
  try {
    vma::RuntimeOptions options;
    options.driver = arguments[1];
    vma::Runtime runtime(options);
    void* const memory = runtime.alloc(64 << 10, vma::gpu(0));
    runtime.migrate(memory, vma::gpu(1));
    // Until the library of `VMART_NVML` was loaded, or is known to be none.
    while (runtime.stats().loads.state == vma::GpuLoads::State::starting) std::this_thread::yield();
    runtime.shutdown();
    std::printf("moved as user %d for user %d\n", static_cast<int>(geteuid()),
                static_cast<int>(getuid()));
  } catch (const vma::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
