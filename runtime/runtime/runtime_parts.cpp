#include "runtime/runtime_parts.hpp"

#include "costs/cost_estimates.hpp"
#include "costs/cost_source.hpp"
#include "parking/demotion.hpp"

#include "base/log.hpp"

namespace vma {
namespace {

MemoryLimits limits_of(const Settings& settings, const Topology& topology) {
  for (const auto& [at, bytes] : settings.capacity_bytes) topology.require(at, "vma::Runtime");
  return {settings.capacity_bytes, settings.cache_bytes_per_gpu, settings.host_cache_bytes,
          settings.pressure_limit, settings.exportable};
}

MigratorLimits migrator_limits_of(const Settings& settings) {
  MigratorLimits limits;
  limits.hold_limit = settings.hold_limit;
  limits.gate_limit = settings.gate_limit;
  limits.gate_limit_max = settings.gate_limit_max;
  limits.gate_retries = settings.gate_retries;
  limits.max_stall = settings.max_stall;
  limits.copy_share_percent = settings.copy_share_percent;
  limits.stall_budget = settings.stall_budget;
  limits.copy_budget_bytes = settings.copy_budget_bytes;
  limits.prepares_gates = settings.prepares_gates;
  limits.prepares_suspensions = settings.prepares_suspensions;
  limits.suspends = settings.suspends;
  limits.tuning = settings.tuning;
  return limits;
}

/// Where memory goes from a full GPU: the places that it reaches fastest come first.
std::vector<Place> places_below(Place at, const Topology& topology, const MachineCosts& costs) {
  const std::vector<Place>& places = topology.places();
  std::vector<Place> order;
  for (const PlaceId place : costs.by_speed(place_of(topology, at))) {
    if (places[index(place)] != at) order.push_back(places[index(place)]);
  }
  return order;
}

std::vector<NamedGpu> gpus_of(Driver& driver, const Topology& topology) {
  std::vector<NamedGpu> gpus;
  for (const DeviceId device : topology.devices()) {
    gpus.push_back({gpu(index(device)), driver.device_info(device).uuid});
  }
  return gpus;
}

/// Empty if NVML is used: no library knows the GPUs of a simulated machine, unless one is named.
std::string why_unmonitored(const Driver& driver, const Settings& settings) {
  if (settings.nvml.empty()) return "VMART_NVML is 0";
  return settings.nvml == "auto" && driver.simulated() ? "the machine is simulated" : "";
}

/// A library; empty for none.
std::string monitored_by(const Driver& driver, const Settings& settings) {
  if (!why_unmonitored(driver, settings).empty()) return "";
  return settings.nvml == "auto" ? "libnvidia-ml.so.1" : settings.nvml;
}

/// Two runtimes on one driver would each hold contexts and count the other's memory.
std::atomic<bool> cuda_runtime_open{false};

}  // namespace

Machinery::Machinery(Driver& driver, UseLog& uses, const Settings& settings)
    : topology(Topology::discover(driver, settings.devices)),
      memory(driver, topology, limits_of(settings, topology)),
      backings(memory),
      engine(driver, topology, memory.contexts(), memory.chunks().ledger(),
             memory.chunks().slow_calls().turn(), settings.own_contexts),
      migrator(memory, engine, migrator_limits_of(settings)),
      faults(memory, migrator),
      launcher(driver, topology, memory.chunks().ledger()),
      pools(driver, memory, [this](StreamHandle stream) { return launcher.made(stream); }),
      kernels(driver),
      parker(memory, migrator),
      sharing(memory, migrator),
      imported(memory),
      sourced(source_costs(driver, topology, settings.calibration)),
      costs(sourced.costs),
      monitor(driver.executor(), std::make_shared<SteadyClock>(), gpus_of(driver, topology),
              monitored_by(driver, settings), why_unmonitored(driver, settings)) {
  if (!settings.policy.empty())
    scheduling = std::make_unique<Scheduling>(driver, memory, backings, migrator, parker, uses,
                                              sourced, monitor, settings);
  // Room is made by the component that knows best what is cold.
  memory.on_pressure([this](Place at, std::uint64_t bytes, TimePoint until) {
    using enum MemoryPressure::Answer;
    if (pools.make_room(at) > 0) return some_left;
    if (at.kind != Place::Kind::gpu) return nothing_leaves;
    if (scheduling && scheduling->scheduler().make_room(at, bytes, until)) return some_left;
    const std::vector<Place> order = places_below(at, topology, costs);
    return demote(memory, migrator, {at, bytes, until, order}).answer();
  });
}

Scheduler& Machinery::scheduler(const char* call) const {
  if (scheduling) return scheduling->scheduler();
  throw Error(
      ErrorKind::unsupported, call,
      "no policy is configured, so nothing decides here: start the program with VMART_POLICY=auto, "
      "or stay_put, which moves nothing by itself, or open the runtime with RuntimeOptions::policy "
      "(vmart.open_runtime(policy=...) in Python); then this call works, and set_policy changes "
      "the policy at any time");
}

RuntimeParts::RuntimeParts(std::unique_ptr<Driver>&& chosen, const Settings& settings)
    : uses(std::make_unique<UseLog>(chosen->clock())),
      process(ProcessExit::process()),
      looks_ahead(settings.prepares_suspensions) {
  driver = std::move(chosen);
  try {
    claim_process();
    machinery = std::make_unique<Machinery>(*driver, *uses, settings);
    at_exit = std::make_unique<ProcessExit::Action>(ProcessExit::Stage::write_files,
                                                    [this] { finish_output(); });
  } catch (...) {
    if (claimed) cuda_runtime_open = false;
    chosen = std::move(driver);  // The machinery, if any, is destroyed before it.
    throw;
  }
}

void RuntimeParts::claim_process() {
  if (driver->simulated()) return;
  if (cuda_runtime_open.exchange(true)) {
    throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                "this process already has a runtime on CUDA; use the shared one, vma::runtime()");
  }
  claimed = true;
}

RuntimeParts::~RuntimeParts() {
  shut_down();
}

Runtime RuntimeParts::make_runtime(std::unique_ptr<RuntimeParts> parts) noexcept {
  return Runtime(std::move(parts));
}

std::unique_ptr<Runtime> RuntimeParts::make_unique_runtime(std::unique_ptr<RuntimeParts> parts) {
  return std::unique_ptr<Runtime>(new Runtime(std::move(parts)));
}

void RuntimeParts::end(std::unique_ptr<RuntimeParts> parts) noexcept {
  static std::atomic<RuntimeParts*> last_kept{nullptr};
  if (!parts) return;
  parts->shut_down();
  if (!parts->in_forked_child() && !ProcessExit::begun()) return;
  RuntimeParts* const kept = parts.release();
  kept->kept_before_ = last_kept.exchange(kept);
}

/// The door first, since calls inside may wait for the others. Sharing after the migrator, whose
/// moves lead importers; memory last, since room is asked for as long as anything moves, and what
/// backings hold goes back to it.
std::array<Part*, 8> RuntimeParts::parts() noexcept {
  if (!machinery) return {&door, uses.get()};
  Machinery& its = *machinery;
  return {&door,       uses.get(),   its.scheduling.get(), &its.migrator,
          &its.faults, &its.sharing, &its.backings,        &its.memory};
}

template <typename Step>  // step(Part&)
void RuntimeParts::for_each_part(Step step) noexcept {
  for (Part* const part : parts())
    if (part != nullptr) step(*part);
}

void RuntimeParts::finish_output() noexcept {
  *open = false;
  if (machinery) machinery->sharing.remove_paths();
  if (machinery && machinery->scheduling) machinery->scheduling->finish_output();
}

bool RuntimeParts::in_forked_child() const noexcept {
  return ProcessExit::process() != process;
}

void RuntimeParts::shut_down() noexcept {
  if (in_forked_child()) {
    *open = false;  // Objects that outlive these parts in the child make no calls to them.
    return;
  }
  if (ProcessExit::begun()) return ProcessExit::hold_back();
  if (Callbacks::runs_here() || HookList::any_runs_here()) {
    log(LogLevel::error,
        "shutdown from a callback or hook does nothing, because it would deadlock");
    return;
  }
  // A second caller also returns only when everything is given back.
  const MutexLock turn(shutting_down);
  at_exit.reset();  // Nothing that it would touch may go beside it.
  *open = false;
  for_each_part([](Part& part) { part.stop_accepting(); });  // Calls inside may wait for others.
  for_each_part([](Part& part) { part.finish(); });
  for_each_part([](Part& part) { part.release(); });
  if (!machinery) return;
  machinery.reset();
  if (claimed) cuda_runtime_open = false;
}

RuntimeParts::Entry::Entry(RuntimeParts& parts, const char* call)
    : parts_(parts), inside_(parts.enter(call)) {}

Door::Counter* RuntimeParts::enter(const char* call) {
  if (in_forked_child()) {
    throw Error(ErrorKind::driver_gone, call,
                "a forked child cannot use its parent's runtime; fork before opening a runtime");
  }
  if (ProcessExit::begun()) {
    ProcessExit::hold_back();
    throw Error(ErrorKind::driver_gone, call, "the process is exiting");
  }
  if (Door::Counter* entered = door.enter()) return entered;
  throw Error(ErrorKind::driver_gone, call, "the runtime was shut down");
}

RuntimeParts::Entry::~Entry() {
  parts_.door.leave(*inside_);
  ProcessExit::hold_back();
}

}  // namespace vma
