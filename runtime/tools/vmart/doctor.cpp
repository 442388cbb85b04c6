#include "tools/vmart/vmart_commands.hpp"

#include "base/units.hpp"
#include "machine/machine_file.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"
#include "tools/command_line/build_information.hpp"
#include "tools/vmart/doctor_report.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

double gb_per_second(Driver& driver, CopyEngine& engine, const Chunk& source, const Chunk& target) {
  constexpr int tries = 4;  // The first one is a warm-up.
  std::chrono::duration<double> best = std::chrono::nanoseconds::max();
  engine.prepare(source.at(), target.at(), 1, CopyUnder::nothing);
  for (int attempt = 0; attempt < tries; ++attempt) {
    const TimePoint start = driver.clock().now();
    engine.wait(engine.enqueue(source, target, CopyUnder::nothing));
    best = std::min<std::chrono::duration<double>>(best, driver.clock().now() - start);
  }
  return static_cast<double>(source.size_bytes()) * 1e-9 / best.count();
}

/// GB/s of one copy between each pair of places, made as migrations copy: through the runtime's
/// copy engine, the best of a few. Throws: Error{out_of_memory} if a chunk does not fit.
std::map<std::pair<Place, Place>, double> measure_links(RuntimeParts& parts,
                                                        std::uint64_t size_bytes) {
  Machinery& machinery = *parts.machinery;
  Memory& memory = machinery.memory;
  std::map<Place, Chunk> chunks;
  std::map<std::pair<Place, Place>, double> speeds;
  try {
    for (const Place at : machinery.topology.places()) {
      const auto made =
          chunks.emplace(at, memory.chunks().obtain(at, size_bytes, ChunkStore::Turn::take));
      memory.chunks().map_staging(made.first->second, ChunkStore::Turn::take);
    }
    for (const auto& [from, source] : chunks) {
      for (const auto& [to, target] : chunks) {
        const bool no_gpu = from.kind == Place::Kind::host && to.kind == Place::Kind::host;
        if (from == to || no_gpu) continue;
        speeds[{from, to}] = gb_per_second(*parts.driver, machinery.engine, source, target);
      }
    }
  } catch (...) {
    for (auto& [at, chunk] : chunks) memory.chunks().retire(std::move(chunk));
    throw;
  }
  for (auto& [at, chunk] : chunks) memory.chunks().retire(std::move(chunk));
  return speeds;
}

/// Finds the VMART_* environment variables that make something fail, by retrying without each one.
/// Faulty ones stay unset in this process. One thread.
class VariableBlame {
 public:
  /// Runs `body`; if it throws an Error, runs it again without each variable in turn. Throws: the
  /// Error if no variable causes it.
  void run(const std::function<void()>& body);

  /// Each says what failed and which variable to correct.
  const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// Names and values of the variables to test. Leaves out VMART_DRIVER: without it, the report would
/// describe another driver.
std::vector<std::pair<std::string, std::string>> variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || !text.starts_with("VMART_")) continue;
    const std::string name = text.substr(0, equals);
    if (name != "VMART_DRIVER") found.emplace_back(name, text.substr(equals + 1));
  }
  return found;
}

std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void VariableBlame::run(const std::function<void()>& body) {
  std::optional<Error> error = error_of(body);
  while (error) {
    bool found = false;
    for (const auto& [name, value] : variables()) {
      unsetenv(name.c_str());
      std::optional<Error> without = error_of(body);
      if (without && std::string_view(without->what()) == error->what()) {
        setenv(name.c_str(), value.c_str(), 1);
        continue;
      }
      problems_.push_back(fmt::format(
          "{}; correct or unset {}, which is \"{}\" (the rest of this report ignores it)",
          error->what(), name, value));
      error = std::move(without);  // Another variable may be invalid too.
      found = true;
      break;
    }
    if (!found) throw *error;
  }
}

using FreeBytes = std::map<DeviceId, std::uint64_t>;

FreeBytes free_now(Driver& driver, const Topology& topology) {
  FreeBytes free;
  for (const DeviceId device : topology.devices()) free[device] = driver.free_bytes(device);
  return free;
}

double taken(const FreeBytes& before, const FreeBytes& after, DeviceId device) {
  return static_cast<double>(before.at(device)) - static_cast<double>(after.at(device));
}

/// Everything that works less well here than it could, and why.
std::vector<std::string> what_is_off(Driver& driver, const Topology& topology) {
  std::vector<std::string> off;
  if (!driver.has_context_hold()) {
    off.push_back(
        "migrate() cannot stop work: the driver has no cuCtxRecordEvent (CUDA 12.5 or newer has "
        "it); use MigrateOptions::nothing_runs");
  }
  const bool has_host = topology.places().back().kind == Place::Kind::host;
  if (!has_host) {
    off.push_back(
        "the host tier: the driver cannot allocate host memory by NUMA node (a container may need "
        "--cap-add SYS_NICE)");
  }
  for (const DeviceId from : topology.devices()) {
    const DeviceInfo& info = topology.info(from);
    if (info.mig) off.push_back(fmt::format("gpu{} is a MIG slice: it has no peers", index(from)));
    if (has_host && !info.host_atomics) {
      off.push_back(fmt::format(
          "atomics of gpu{} on host memory (hostNativeAtomicSupported is 0): if several GPUs, or "
          "a GPU and the CPU, update the same words in host memory, updates can be lost; "
          "AllocOptions::shared_atomics keeps memory out of there",
          index(from)));
    }
    if (info.max_queues == 1) {
      off.push_back(
          fmt::format("gpu{} has one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS): streams "
                      "wait for each other",
                      index(from)));
    }
    for (const DeviceId to : topology.devices()) {
      if (topology.reaches(from, gpu(index(to)))) {
        if (from == to || topology.link(from, to).native_atomics) continue;
        off.push_back(fmt::format(
            "atomics of gpu{} on memory at gpu{} (NATIVE_ATOMIC_SUPPORTED is 0): if both GPUs "
            "update the same words, updates can be lost",
            index(from), index(to)));
        continue;
      }
      off.push_back(
          fmt::format("kernels on gpu{} cannot use memory at gpu{}: the driver reports no "
                      "peer access",
                      index(from), index(to)));
    }
  }
  return off;
}

/// Retains a primary context on every GPU, as queries of free memory need one.
class PrimaryContexts {
 public:
  PrimaryContexts(Driver& driver, const Topology& topology) : driver_(driver) {
    try {
      for (const DeviceId device : topology.devices()) {
        driver_.retain_primary(device);
        retained_.push_back(device);
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~PrimaryContexts() { release(); }
  PrimaryContexts(const PrimaryContexts&) = delete;
  PrimaryContexts& operator=(const PrimaryContexts&) = delete;

 private:
  void release() noexcept {
    for (const DeviceId device : retained_) {
      try {
        driver_.release_primary(device);
      } catch (const Error& error) {
        fmt::print(stderr, "vmart: {}\n", error.what());
      }
    }
  }

  Driver& driver_;
  std::vector<DeviceId> retained_;
};

/// At most a quarter of any GPU's free memory, so that small and busy GPUs are timed too.
std::uint64_t copy_size(const FreeBytes& free, std::uint64_t wanted_bytes) {
  std::uint64_t bytes = wanted_bytes;
  for (const auto& [device, free_bytes] : free) bytes = std::min(bytes, free_bytes / 4);
  return wanted_bytes == 0 ? 0 : std::max<std::uint64_t>(bytes / MiB, 1) * MiB;
}

void time_copies(RuntimeParts& parts, std::uint64_t copy_bytes, DoctorFindings& findings) {
  if (copy_bytes == 0) return;
  try {
    findings.gb_s = measure_links(parts, copy_bytes);
    findings.copy_bytes = copy_bytes;
  } catch (const Error& error) {
    findings.wrong.push_back(
        fmt::format("no copy was timed: {}; free memory there, raise its capacity, time smaller "
                    "copies (--copy-mib), or time none (--copy-mib 0)",
                    error.what()));
  }
}

/// One examination. The order of the members matters: the contexts are released before the driver
/// is destroyed, which the runtime's parts own once they are open.
class Examination {
 public:
  explicit Examination(const DoctorOptions& options) : options_(options) {
    runtime_options_.driver = options.driver;
  }

  /// Returns the exit status.
  int run() {
    blame_.run([&] { settings_ = resolve_settings(runtime_options_); });
    driver_ = open_driver(settings_.driver);
    Driver& driver = *driver_;
    blame_.run([&] {
      settings_ = resolve_settings(runtime_options_);
      topology_ = Topology::discover(driver, settings_.devices);
    });
    if (!driver.simulated()) findings_.support = support_of(question(driver));
    if (!options_.json) {
      print_driver(driver);
      print_support(findings_.support);
      print_devices(*topology_);
      print_peers(*topology_);
    }
    findings_.off = what_is_off(driver, *topology_);
    try {
      measure(driver);
    } catch (const Error& error) {
      findings_.wrong.push_back(fmt::format("no runtime can be opened here: {}", error.what()));
    }
    findings_.wrong.insert(findings_.wrong.begin(), blame_.problems().begin(),
                           blame_.problems().end());
    if (options_.json) {
      print_doctor_json(driver, *topology_, findings_);
    } else {
      print_verdict(findings_);
    }
    return findings_.wrong.empty() ? 0 : 1;
  }

 private:
  SupportQuestion question(Driver& driver) const {
    SupportQuestion machine{driver.description(), {}};
    for (const DeviceId device : topology_->devices()) {
      const DeviceInfo& info = topology_->info(device);
      machine.gpus.push_back(info.name);
      machine.mig = machine.mig || info.mig;
    }
    return machine;
  }

  void measure(Driver& driver) {
    contexts_.emplace(driver, *topology_);
    const FreeBytes before = free_now(driver, *topology_);
    blame_.run([&] {
      settings_ = resolve_settings(runtime_options_);
      parts_ = std::make_unique<RuntimeParts>(std::move(driver_), settings_);
    });
    const FreeBytes idle = free_now(driver, *topology_);
    time_copies(*parts_, copy_size(idle, static_cast<std::uint64_t>(options_.copy_mib) * MiB),
                findings_);
    const Topology& topology = parts_->machinery->topology;
    for (const Place at : topology.places()) parts_->machinery->memory.chunks().trim(at);
    const FreeBytes copied = free_now(driver, *topology_);
    if (findings_.copy_bytes > 0) time_own_contexts(driver);
    const FreeBytes own = free_now(driver, *topology_);
    for (const DeviceId device : topology_->devices()) {
      findings_.suspensions.push_back(
          {device, parts_->machinery->migrator.check_suspension(device)});
    }
    for (const DeviceId device : topology_->devices()) {
      findings_.hbm.push_back({device, taken(before, idle, device), taken(before, copied, device),
                               taken(before, own, device)});
    }
    if (options_.json) return;
    if (findings_.copy_bytes > 0) print_speeds(findings_, *topology_, driver.simulated());
    print_hbm(findings_);
    if (findings_.copy_bytes > 0) print_copy_contexts(findings_, settings_.own_contexts);
    print_suspensions(findings_);
  }

  /// What moves cost that cannot copy in the contexts of the program.
  void time_own_contexts(Driver& driver) {
    try {
      for (const DeviceId device : topology_->devices()) {
        const TimePoint start = driver.clock().now();
        parts_->machinery->engine.own_context(device);
        findings_.own_context_time = std::max(findings_.own_context_time.value_or(TimePoint(0)),
                                              driver.clock().now() - start);
      }
    } catch (const Error& error) {
      findings_.own_context_time.reset();
      findings_.wrong.push_back(error.what());
    }
  }

  const DoctorOptions& options_;
  RuntimeOptions runtime_options_;
  VariableBlame blame_;
  Settings settings_;
  DoctorFindings findings_;
  std::optional<Topology> topology_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<RuntimeParts> parts_;
  std::optional<PrimaryContexts> contexts_;
};

#ifdef VMART_HAS_CUDA
constexpr bool has_cuda = true;
#else
constexpr bool has_cuda = false;
#endif

/// Without a GPU: what can be tried all the same.
void print_what_is_there() {
  std::size_t policies = built_in_policies().kinds().size();
  fmt::print(stderr,
             "No driver of NVIDIA answers here, but these simulated machines are built in:\n  {}\n"
             "Try one: VMART_DRIVER=sim:h200x2 vmart demo\n"
             "{} is built {} CUDA's driver interface, with {} policies\n",
             fmt::join(machine_names(), " "), version_text("vmart"), has_cuda ? "with" : "without",
             policies);
}

}  // namespace

int run_doctor(const DoctorOptions& options) try {
  return Examination(options).run();
} catch (const Error& error) {
  if (error.kind() == ErrorKind::unsupported && !options.json) {
    print_support(Support{"refused", error.what(), ""});
  }
  if (error.kind() == ErrorKind::no_driver && !options.json) print_what_is_there();
  throw;
}

}  // namespace vma
