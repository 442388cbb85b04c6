#include "guards/driver_guards.hpp"

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "base/process_exit.hpp"
#include "driver/captures_begun.hpp"
#include "entry_points/entry_points.hpp"
#include "entry_points/known_calls.hpp"
#include "entry_points/unknown_calls.hpp"
#include "migrate/stops/program_calls.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <vma/migration.hpp>

#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace vma {
namespace {

/// The functions behind the guards, by row. Not in a library's data, where guards would replace
/// them.
void* const* functions_behind = nullptr;
std::atomic<const DriverGuards*> published{nullptr};

/// The streams that capture: a hold of everything would end their captures (`require_no_capture`).
class Captures {
 public:
  static Captures& of_process() noexcept {
    static Immortal<Captures> only;
    return *only;
  }
  void begun(CUstream stream) noexcept {
    try {
      const MutexLock lock(mutex_);
      if (streams_.insert(key(stream)).second) CapturesBegun::of_process().note_open(1);
    } catch (const std::bad_alloc&) {  // A hold may end this one.
    }
  }
  void ended(CUstream stream) noexcept {
    const MutexLock lock(mutex_);
    if (streams_.erase(key(stream)) > 0) CapturesBegun::of_process().note_open(-1);
  }

 private:
  using Key = std::pair<CUstream, std::thread::id>;
  /// Built-in streams have the same handles in each thread.
  static Key key(CUstream stream) noexcept {
    const bool built_in =
        stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    return {stream, built_in ? std::this_thread::get_id() : std::thread::id()};
  }

  Mutex mutex_;
  std::set<Key> streams_ VMART_GUARDED_BY(mutex_);
};

enum class OnCaptures { nothing, begins, ends, destroys };

constexpr OnCaptures effect_on_captures(EntryPoint entry) noexcept {
  if (does(entry, Does::begins_capture)) return OnCaptures::begins;
  if (does(entry, Does::ends_capture)) return OnCaptures::ends;
  return does(entry, Does::destroys_stream) ? OnCaptures::destroys : OnCaptures::nothing;
}

template <EntryPoint entry, typename Pointer = typename TypeOf<entry>::Pointer>
struct Guard;

template <EntryPoint entry, typename... Args>
struct Guard<entry, CUresult (*)(Args...)> {
  static CUresult call(Args... args) {
    const auto function =
        reinterpret_cast<CUresult (*)(Args...)>(functions_behind[static_cast<std::size_t>(entry)]);
    // A hook of the program, perhaps, in a thread that has stopped work.
    if (InsideRuntime::here()) return function(args...);
    if constexpr (constexpr OnCaptures effect = effect_on_captures(entry);
                  effect == OnCaptures::nothing) {
      const CopyScope scope;
      return function(args...);
    } else {
      return change_captures(effect, function, args...);
    }
  }

 private:
  template <typename Function, typename... Others>
  static CUresult change_captures(OnCaptures effect, Function function, CUstream stream,
                                  Others... others) {
    if (effect == OnCaptures::begins) {
      CaptureLock::enter();
      const CUresult result = function(stream, others...);
      if (result == CUDA_SUCCESS) Captures::of_process().begun(stream);
      CaptureLock::leave();
      return result;
    }
    if (effect == OnCaptures::destroys) {
      Captures::of_process().ended(stream);  // Before another stream may have its handle.
      return function(stream, others...);
    }
    const CopyScope scope;
    const CUresult result = function(stream, others...);
    if (result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) Captures::of_process().ended(stream);
    return result;
  }
};

/// `cuGetProcAddress` of either version.
template <EntryPoint entry, typename... Status>
CUresult look_up(const char* symbol, void** out, int version, cuuint64_t flags, Status... status) {
  using Pointer = typename TypeOf<entry>::Pointer;
  const auto function =
      reinterpret_cast<Pointer>(functions_behind[static_cast<std::size_t>(entry)]);
  const CUresult result = function(symbol, out, version, flags, status...);
  if (result != CUDA_SUCCESS || out == nullptr || *out == nullptr) return result;
  const void* const guard = published.load()->guard_of(*out, symbol);
  if (guard != nullptr) *out = const_cast<void*>(guard);
  return result;
}

template <EntryPoint entry>
const void* guard_for() {
  if constexpr (entry == EntryPoint::cuGetProcAddress) {
    return reinterpret_cast<const void*>(&look_up<entry>);
  } else if constexpr (entry == EntryPoint::cuGetProcAddress_v2) {
    return reinterpret_cast<const void*>(&look_up<entry, CUdriverProcAddressQueryResult*>);
  } else if constexpr (does(entry, Does::looks_up) || does(entry, Does::creates_context) ||
                       effect_on_captures(entry) != OnCaptures::nothing) {
    return reinterpret_cast<const void*>(&Guard<entry>::call);
  } else {
    return nullptr;
  }
}

struct Row {
  std::string_view symbol, type;
  const void* guard;
};

const std::vector<Row>& rows() {
  static const std::vector<Row>& all = *new std::vector<Row>{
#define ROW(symbol, type, does) Row{#symbol, #type, guard_for<EntryPoint::symbol>()},
      VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW
  };
  return all;
}

/// The version of CUDA that brought the function, which the name of its type ends in, such as
/// PFN_cuMemcpyAsync_v7000_ptsz; 0 if it does not.
int since(std::string_view type) {
  const std::size_t at = type.find("_v");
  int version = 0;
  if (at != std::string_view::npos) {
    std::from_chars(type.data() + at + 2, type.data() + type.size(), version);
  }
  return version;
}

/// What `cuGetProcAddress` says: it may be another address than the symbol's.
void* resolved(PFN_cuGetProcAddress_v12000 resolve, const Row& row) {
  const int version = since(row.type);
  if (version == 0) return nullptr;
  const bool per_thread = row.symbol.ends_with("_ptsz") || row.symbol.ends_with("_ptds");
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result = resolve(std::string(base_name(row.symbol)).c_str(), &found, version,
                                  per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                             : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                  &status);
  return result == CUDA_SUCCESS ? found : nullptr;
}

}  // namespace

DriverGuards::DriverGuards(void* library, void* resolve) {
  functions_.resize(rows().size());
  linked_.resize(rows().size());
  for (std::size_t row = 0; row < rows().size(); ++row) {
    const std::string symbol(rows()[row].symbol);
    functions_[row] = dlsym(library, symbol.c_str());
    linked_[row] = dlsym(RTLD_DEFAULT, symbol.c_str());
    void* const other =
        resolved(reinterpret_cast<PFN_cuGetProcAddress_v12000>(resolve), rows()[row]);
    if (functions_[row] == nullptr) functions_[row] = other;
    add(functions_[row], row);
    add(other, row);
  }
  dlerror();  // The program would take it for its own.
  // Stable, since a driver may have two names for a function: that of the first row is found.
  std::ranges::stable_sort(known_, std::less<>(), &Known::function);
}

void DriverGuards::add(const void* function, std::size_t row) {
  if (function != nullptr) known_.push_back({function, rows()[row].guard});
}

void DriverGuards::publish() const noexcept {
  functions_behind = functions_.data();
  published.store(this);
}

const void* DriverGuards::guard_of(const void* function) const noexcept {
  if (std::less<>()(function, known_.front().function) ||
      std::less<>()(known_.back().function, function)) {
    return nullptr;
  }
  const auto found = std::ranges::lower_bound(known_, function, std::less<>(), &Known::function);
  return found != known_.end() && found->function == function ? found->guard : nullptr;
}

const void* DriverGuards::guard_of(const void* function, std::string_view symbol) const noexcept {
  const auto found = std::ranges::lower_bound(known_, function, std::less<>(), &Known::function);
  if (found != known_.end() && found->function == function) return found->guard;
  return may_look_memory_up(symbol) ? jump_to(function, symbol) : nullptr;
}

const void* DriverGuards::guard_named(std::string_view symbol) const noexcept {
  const auto row = std::ranges::find(rows(), symbol, &Row::symbol);
  if (row == rows().end()) return nullptr;
  const auto which = static_cast<std::size_t>(row - rows().begin());
  // Another library's, of the same name, is left alone.
  const bool others = linked_[which] != nullptr && linked_[which] != functions_[which];
  return functions_[which] == nullptr || others ? nullptr : row->guard;
}

const void* DriverGuards::inside() const noexcept {
  return known_.front().function;
}

/// Each call, as moves may begin later.
void before_unknown_call(std::string_view symbol) noexcept {
  char why[160];
  const auto end = fmt::format_to_n(
      why, sizeof why, "the program calls {}, which this version of vmart does not guard", symbol);
  CopyScopes::process().note_unguarded({why, std::min(end.size, sizeof why)});
}

}  // namespace vma
