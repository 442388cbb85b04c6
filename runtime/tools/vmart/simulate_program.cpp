#include "tools/vmart/vmart_commands.hpp"

#include "machine/machine_file.hpp"
#include "tools/vmart/program_start.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr const char* simulate_call = "vmart simulate";

/// Installed and in a build tree, it lies in a folder of its own.
std::string folder_of_simcuda() {
  for (const char* name : {"vmart/simcuda/libcuda.so.1", "simcuda/libcuda.so.1"}) {
    if (const auto library = own_file(name)) return fs::path(*library).parent_path().string();
  }
  throw Error(
      ErrorKind::unsupported, simulate_call,
      "simcuda is not beside this program: wheels and builds with VMART_SIM_ONLY have none; "
      "build vmart with CUDA's header and -DVMART_BUILD_SIMCUDA=ON");
}

std::string absolute(const std::string& library) {
  std::error_code failed;
  const fs::path path = fs::canonical(library, failed);
  if (failed) {
    throw Error(ErrorKind::invalid_argument, simulate_call,
                fmt::format("--kernels {}: {}", library, failed.message()));
  }
  if (path.string().find(':') == std::string::npos) return path.string();
  throw Error(ErrorKind::invalid_argument, simulate_call,
              fmt::format("--kernels {}: the path must not have a colon", path.string()));
}

}  // namespace

int simulate_program(const SimulateOptions& options) {
  set_first("LD_LIBRARY_PATH", folder_of_simcuda());
  if (!options.machine.empty()) {
    const fs::path file = fs::absolute(find_machine_file(options.machine));
    load_machine(file.string());  // The program would only see that there is no GPU.
    set_variable("SIMCUDA_MACHINE", file.string());
  }
  std::string kernels;
  for (const std::string& library : options.kernels) {
    kernels += (kernels.empty() ? "" : ":") + absolute(library);
  }
  if (!kernels.empty()) set_first("SIMCUDA_KERNELS", kernels);
  return become(simulate_call, options.program);
}

}  // namespace vma
