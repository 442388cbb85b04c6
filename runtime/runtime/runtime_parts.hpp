#pragma once

#include "backings/backings.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "base/part.hpp"
#include "base/process_exit.hpp"
#include "costs/cost_source.hpp"
#include "cpu_faults/cpu_faults.hpp"
#include "machine/topology.hpp"
#include "memory/memory.hpp"
#include "migrate/copying/copy_engine.hpp"
#include "migrate/moves/migrator.hpp"
#include "parking/parker.hpp"
#include "pools/pools.hpp"
#include "runtime/door.hpp"
#include "runtime/known_kernels.hpp"
#include "runtime/launcher.hpp"
#include "runtime/scheduling.hpp"
#include "runtime/settings.hpp"
#include "sharing/imported_blocks.hpp"
#include "sharing/sharing.hpp"
#include "telemetry/gpu_monitor.hpp"
#include "telemetry/use_log.hpp"

#include <vma/runtime.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace vma {

/// What a runtime uses with one driver: everything below it, composed, in the order of the layers.
struct Machinery {
  Machinery(Driver& driver, UseLog& uses, const Settings& settings);

  /// Throws: Error{unsupported} if there is none.
  Scheduler& scheduler(const char* call) const;
  /// Streams were attached or detached.
  void scope_changed() noexcept {
    if (scheduling) scheduling->scheduler().inbox().scope_changed();
  }

  Topology topology;
  Memory memory;
  Backings backings;
  CopyEngine engine;
  Migrator migrator;
  CpuFaults faults;
  Launcher launcher;
  Pools pools;
  KnownKernels kernels;
  Parker parker;
  Sharing sharing;
  ImportedBlocks imported;
  const SourcedCosts sourced;
  const MachineCosts& costs;  ///< Of `sourced`.
  GpuMonitor monitor;
  /// Null without a policy. Created last, destroyed first.
  std::unique_ptr<Scheduling> scheduling;
};

/// A runtime's insides, and its door: `Entry` lets a call in, or refuses it after shutdown, in a
/// forked child, where the driver must not be called, and while the process exits.
struct RuntimeParts {
  /// Takes over the driver. If it throws, the caller still has it, and may still use it.
  RuntimeParts(std::unique_ptr<Driver>&& driver, const Settings& settings);
  /// Shuts down. Requires: not a forked child, and no exit has begun; otherwise use `end`.
  ~RuntimeParts();
  static RuntimeParts& of(Runtime& runtime) noexcept { return *runtime.parts_; }
  static Runtime make_runtime(std::unique_ptr<RuntimeParts> parts) noexcept;
  static std::unique_ptr<Runtime> make_unique_runtime(std::unique_ptr<RuntimeParts> parts);
  /// Destroys the parts, or keeps them forever. A forked child must not touch the memory and
  /// threads of its parent. In an exiting process the driver is gone, and threads may still be
  /// inside calls. What is kept stays reachable, so that leak checkers accept it.
  static void end(std::unique_ptr<RuntimeParts> parts) noexcept;

  /// One call inside the runtime.
  class Entry {
   public:
    Entry(RuntimeParts& parts, const char* call);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    Machinery* operator->() const noexcept { return parts_.machinery.get(); }
    Machinery& operator*() const noexcept { return *parts_.machinery; }

   private:
    RuntimeParts& parts_;
    Door::Counter* const inside_;
    const InsideRuntime here_;
  };

  /// Throws: Error{driver_gone}.
  Door::Counter* enter(const char* call);
  /// Throws: Error{invalid_argument} if another runtime of the process is open on CUDA.
  void claim_process();
  void shut_down() noexcept;
  /// At process exit: writes the output; everything else ends with the process.
  void finish_output() noexcept;
  bool in_forked_child() const noexcept;

  std::unique_ptr<Driver> driver;
  /// Lives as long as the parts, since recording a use bypasses the door; closed by shutdown.
  std::unique_ptr<UseLog> uses;
  std::unique_ptr<Machinery> machinery;
  const int process;
  bool claimed = false;  // This is the process's runtime on CUDA.
  /// The first allocation looks for copies that need guards, which takes 0.1 s with the libraries
  /// of PyTorch and which the first move would do otherwise.
  std::atomic<bool> looks_ahead;
  Mutex shutting_down;
  Door door;
  /// False once shut down; outlives the parts, for views that outlive the runtime.
  std::shared_ptr<std::atomic<bool>> open = std::make_shared<std::atomic<bool>>(true);
  std::unique_ptr<ProcessExit::Action> at_exit;  // Null once shut down.

 private:
  /// Those that have to end, in the order in which they do. Null for one that does not exist.
  std::array<Part*, 8> parts() noexcept;
  template <typename Step>
  void for_each_part(Step step) noexcept;

  RuntimeParts* kept_before_ = nullptr;  // List of those that `end` keeps.
};

/// The insides of a runtime, for tools and tests.
inline RuntimeParts& parts_of(Runtime& runtime) noexcept {
  return RuntimeParts::of(runtime);
}
/// A runtime of parts that its caller has composed. Requires: not null.
inline Runtime runtime_of(std::unique_ptr<RuntimeParts> parts) noexcept {
  return RuntimeParts::make_runtime(std::move(parts));
}
inline std::unique_ptr<Runtime> unique_runtime_of(std::unique_ptr<RuntimeParts> parts) {
  return RuntimeParts::make_unique_runtime(std::move(parts));
}

/// Throws: Error{no_driver, unsupported, invalid_argument}.
std::unique_ptr<Driver> open_driver(const std::string& name);

}  // namespace vma
