#include "cpu_faults/cpu_faults.hpp"

#include "base/process_exit.hpp"
#include "memory/move_claim.hpp"
#include "migrate/migration/migration_error.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <string>
#include <utility>

namespace vma {
namespace {

constexpr const char* fault_call = "a CPU access";

/// What may go well the next time.
bool is_transient(ErrorKind kind) noexcept {
  return kind == ErrorKind::busy || kind == ErrorKind::driver_failure;
}

const char* advice_for(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::pinned:
      return "End what keeps it there first, or copy the bytes with vma::read";
    case ErrorKind::dropped: return "Call vma::resume for its tag first";
    case ErrorKind::poisoned: return "vma::read returns its bytes";
    case ErrorKind::out_of_memory:
      return "Free memory of the host node, or copy parts with vma::read";
    case ErrorKind::busy:
      return "Let no work wait for the thread that accesses the memory, or raise "
             "RuntimeOptions::hold_limit";
    case ErrorKind::unknown_pointer: return "Do not use memory beside or behind its free";
    case ErrorKind::driver_gone: return "Access the memory before the runtime ends";
    default: return "Copy the bytes with vma::read";
  }
}

void require_accessible(const Allocation& allocation, std::size_t slot, bool writes) {
  if (allocation.being_freed) {
    throw Error(ErrorKind::unknown_pointer, fault_call, "the allocation is being freed");
  }
  require_contents(allocation, {slot, slot + 1}, fault_call);
  require_no_loss(allocation, fault_call);
  if (writes && allocation.read_only()) {
    throw Error(ErrorKind::unsupported, fault_call,
                "the allocation is read-only while a ReadOnly of it exists");
  }
}

}  // namespace

CpuFaults::CpuFaults(Memory& memory, Migrator& migrator)
    : memory_(memory), migrator_(migrator), process_(ProcessExit::process()) {}

CpuFaults::~CpuFaults() {
  stop_accepting();
}

void CpuFaults::begin() {
  const MutexLock lock(beginning_);
  if (closing_) throw Error(ErrorKind::driver_gone, "vma::alloc", "the runtime was shut down");
  if (task_) return;
  task_ = threads_.spawn("vmart faults", [this] { run(); });
  try {
    FaultSignals::add(*this);
  } catch (...) {
    queue_.close();
    std::exchange(task_, nullptr)->join();
    queue_.open();
    throw;
  }
}

void CpuFaults::prepare(const Allocation& allocation) noexcept {
  constexpr std::uint64_t first_touch_bytes = std::uint64_t{64} << 20;
  const Geometry& geometry = allocation.geometry();
  std::map<Place, std::size_t> chunks;
  try {
    for (std::size_t slot = 0; slot < geometry.slots; ++slot) {
      const Place at = allocation.place(slot);
      if (at.kind != Place::Kind::gpu) continue;
      ++chunks[memory_.topology().nearest_host(DeviceId{at.ordinal})];
    }
  } catch (const std::exception&) {  // They are created when they are needed.
  }
  const std::size_t most = std::max<std::uint64_t>(first_touch_bytes / geometry.chunk_bytes, 1);
  for (const auto& [at, count] : chunks) {
    memory_.chunks().make_ahead(at, geometry.chunk_bytes, std::min(count, most));
  }
}

void CpuFaults::stop_accepting() noexcept {
  const MutexLock lock(beginning_);
  closing_ = true;
  if (!task_) return;
  queue_.wake();
  FaultSignals::remove(*this);
  queue_.close();
  std::exchange(task_, nullptr)->join();
}

Address CpuFaults::allocation_around(Address address) const noexcept {
  const Registry& registry = memory_.registry();
  const std::optional<Registry::Found> found = registry.find(address);
  const std::optional<Registry::Bounds> bounds =
      found ? registry.bounds(found->id) : std::optional<Registry::Bounds>();
  return bounds && bounds->contains(address) ? bounds->begin : Address{};
}

void CpuFaults::run() noexcept {
  constexpr std::chrono::nanoseconds idle = std::chrono::hours(1);
  constexpr std::chrono::nanoseconds in_line = std::chrono::microseconds(200);
  CpuFault* waiting = nullptr;  // For claims, the oldest first.
  while (!queue_.is_closed()) {
    CpuFault** last = &waiting;
    while (*last != nullptr) last = &(*last)->next;
    *last = queue_.take_all(waiting == nullptr ? idle : in_line);
    for (CpuFault** at = &waiting; *at != nullptr;) {
      CpuFault& fault = **at;
      CpuFault* const next = fault.next;  // It is gone once answered.
      if (serve(fault)) {
        *at = next;
      } else {
        at = &fault.next;
      }
    }
    ProcessExit::hold_back();
  }
}

/// Whether it was answered; otherwise it waits in line.
bool CpuFaults::serve(CpuFault& fault) noexcept {
  try {
    if (closing_) throw Error(ErrorKind::driver_gone, fault_call, "the runtime is shut down");
    const std::optional<CpuFault::Answer> answer = answer_to(fault);
    if (answer) FaultQueue::answer(fault, *answer);
    return answer.has_value();
  } catch (const Error& error) {
    refuse(fault, error);
  } catch (const std::exception&) {
    static const Error no_memory(ErrorKind::out_of_memory, fault_call, "no memory on the heap");
    refuse(fault, no_memory);
  }
  FaultQueue::answer(fault, CpuFault::Answer::refused);
  return true;
}

/// None if another thread moves the memory.
std::optional<CpuFault::Answer> CpuFaults::answer_to(const CpuFault& fault) {
  constexpr int tries = 3;
  const std::shared_ptr<Allocation> allocation = memory_.registry().hold(fault.address);
  if (!allocation || allocation->cpu != CpuAccess::fault) return CpuFault::Answer::foreign;
  const std::size_t slot =
      (fault.address - allocation->begin()) / allocation->geometry().chunk_bytes;
  for (int attempt = 1;; ++attempt) {
    try {
      if (!bring(allocation, slot, fault.writes)) return std::nullopt;
      require_progress(fault, allocation->cpu_change(slot));
      ++served_;
      return CpuFault::Answer::retry;
    } catch (const Error& error) {
      if (attempt == tries || !is_transient(error.kind())) throw;
    }
  }
}

/// False if another thread moves the memory. After true, the CPU has or had access.
bool CpuFaults::bring(const std::shared_ptr<Allocation>& allocation, std::size_t slot,
                      bool writes) {
  MoveClaim claim = MoveClaim::try_take(allocation);
  if (!claim) return false;
  require_accessible(*allocation, slot, writes);
  const Place at = allocation->place(slot);
  if (at.kind == Place::Kind::host) {
    const std::uint64_t most = fetched_bytes_max / allocation->geometry().chunk_bytes;
    allocation->grant_cpu(slot, slot + std::max<std::uint64_t>(most, 1));
    return true;
  }
  require_no_pin(*allocation, fault_call);
  if (!allocation->hooks().empty()) {
    throw Error(ErrorKind::unsupported, fault_call,
                "it has move hooks, which may wait for the thread: migrate it to a host node "
                "yourself and hold a HostView");
  }
  const SlotRange range = range_at(*allocation, slot);
  const Place to = memory_.topology().nearest_host(DeviceId{at.ordinal});
  MigrateOptions options;
  MigrationTerms terms;
  terms.requires_guards = false;        // The thread cannot go on, and may be inside the loader.
  terms.choice = PlaceChoice::runtime;  // The program wants it where it was.
  if (migrator_.attached().any(allocation->begin())) {
    options.scope = StopScope::attached;
    claim = MoveClaim();  // It is the worker's.
    const std::shared_ptr<MigrationTask> task =
        migrator_.submit(allocation, range, to, options, terms);
    task->wait();
    if (const std::exception_ptr failure = task->error()) std::rethrow_exception(failure);
  } else {
    migrator_.move(*allocation, range, to, options, terms);
  }
  fetched_ += range.end - range.first;
  return true;
}

/// Throws if the thread comes again and again although it has access as far as is known here.
void CpuFaults::require_progress(const CpuFault& fault, std::uint64_t change) {
  constexpr std::size_t threads_max = 1024;
  constexpr int fruitless_max = 3;
  if (retries_.size() >= threads_max) retries_.clear();  // Most have ended.
  Retry& last = retries_[fault.thread];
  const bool fruitless = last.address == fault.address && last.change == change;
  last = {fault.address, change, fruitless ? last.fruitless + 1 : 0};
  if (last.fruitless < fruitless_max) return;
  retries_.erase(fault.thread);
  throw Error(ErrorKind::unsupported, fault_call,
              "the access faults although the runtime has granted it: something else forbids it, "
              "such as mprotect");
}

/// What a fault in the slot fetches: the chunk and those behind it at its GPU.
SlotRange CpuFaults::range_at(Allocation& allocation, std::size_t slot) const {
  const Geometry& geometry = allocation.geometry();
  const auto most = static_cast<std::size_t>(
      std::max<std::uint64_t>(fetched_bytes_max / geometry.chunk_bytes, 1));
  const bool goes_on = allocation.fetched.end == slot;
  const std::size_t wanted =
      std::min(goes_on ? 2 * allocation.fetched.slots : std::size_t{2}, most);
  const Place at = allocation.place(slot);
  const std::size_t limit = std::min(geometry.slots, slot + wanted);
  std::size_t end = slot + 1;
  while (end < limit && allocation.place(end) == at && !allocation.dropped(end)) ++end;
  allocation.fetched = {end, wanted};
  return {slot, end};
}

/// Says on standard error why, whatever is logged: the process is about to end.
void CpuFaults::refuse(const CpuFault& fault, const Error& error) noexcept {
  ++refused_;
  try {
    const std::shared_ptr<Allocation> allocation = memory_.registry().hold(fault.address);
    const std::string line = fmt::format(
        "vmart: the CPU cannot {} {:#x}, in the allocation \"{}\" that starts at {:#x}: {}. {}\n",
        fault.writes ? "store to" : "load from", to_integer(fault.address),
        allocation ? allocation->tag : "", allocation ? to_integer(allocation->begin()) : 0,
        error.what(), advice_for(error.kind()));
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::exception&) {  // No memory for words.
  }
}

}  // namespace vma
