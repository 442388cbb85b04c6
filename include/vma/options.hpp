#pragma once

#include <vma/place.hpp>
#include <vma/policy.hpp>
#include <vma/sharing.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// How the CPU loads and stores memory through its pointer.
enum class CpuAccess {
  /// Only at a host node, and only while a HostView keeps it there.
  view,
  /// At any time. At a host node, it is ordinary memory for the CPU. A load or store of a chunk in
  /// HBM waits while the runtime moves that chunk and some behind it to the host node nearest to
  /// the GPU, as `migrate` would: it suspends the work, or else uses gates if streams are attached,
  /// otherwise a hold. The work must be able to stop there without the thread that waits.
  ///
  /// Where the memory cannot come, the access is a segmentation fault as any other, and a line on
  /// standard error says why: in a forked child; inside a callback, hook or call of the runtime;
  /// while the memory is pinned, dropped, being freed or, for stores, read-only; and in HBM while
  /// it has move hooks, which may wait for what the thread holds. See docs/guide/cpu_access.md.
  fault,
};

/// As `AllocOptions::chunk_bytes`: chunks as large as this machine can give cheaply, for memory
/// that is parked and resumed as a whole. One chunk for up to 8 GiB on a machine with one GPU; 256
/// MiB where another GPU gets access, since that costs ten times as much for larger ones. What is
/// larger than 256 MiB moves only while the work that uses it is stopped.
inline constexpr std::size_t largest_chunks = SIZE_MAX;

struct AllocOptions {
  /// Size of one chunk, the unit that moves. Rounded up to the allocation granularity (2 MiB on
  /// GPUs); at most 256 MiB, or `largest_chunks`. With 0 the runtime chooses:
  ///
  ///   requested size     on a GPU             on a host node
  ///   up to 32 MiB       one chunk            one chunk
  ///   up to 256 MiB      one chunk            chunks of 32 MiB
  ///   below 512 MiB      chunks of 64 MiB     chunks of 32 MiB
  ///   below 1 GiB        chunks of 128 MiB    chunks of 32 MiB
  ///   from 1 GiB on      chunks of 256 MiB    chunks of 32 MiB
  ///
  /// and with `CpuAccess::fault` chunks of 16 MiB from 64 MiB on, 8 MiB from 32 MiB on, else 4 MiB.
  /// A chunk moves as a whole. Set this if smaller parts must move; they cost more.
  std::size_t chunk_bytes = 0;
  /// Name of the allocation in logs, `where` listings and errors.
  std::string tag;
  /// Where the program allocates it, innermost first, for `vmart where --sites` and selectors.
  std::string site{};
  /// Fills the memory with zeros. Otherwise the contents are undefined.
  bool zeroed = false;
  /// False forbids every move: `migrate` throws Error{pinned}.
  bool movable = true;
  /// Several GPUs update the same words with atomics. Where those lose updates, as in host memory
  /// behind PCIe, `alloc` and `migrate` throw Error{unsupported}, and policies put none of it.
  bool shared_atomics = false;
  /// Other processes can import it (`export_allocation`), wherever it moves: its chunks are created
  /// so that they can be exported by descriptor, also if `RuntimeOptions::exportable` does not say
  /// so. What that costs: see `Exportable`.
  bool exportable = false;
  /// Sizes below one chunk come from the default pool of the place: they share chunks, and have its
  /// tag. Ignored with `chunk_bytes`, `zeroed`, `shared_atomics`, `exportable`,
  /// `CpuAccess::fault` or readers.
  bool pool = false;
  /// If the GPU has no room, also after the runtime has evicted what it can, chunks go to other
  /// places that have room, the fastest first. Ignored at host nodes, with readers, and without a
  /// scheduler.
  bool spill = false;
  CpuAccess cpu_access = CpuAccess::view;
};

/// Options for opening a runtime. An empty field is read from the environment variable named in its
/// comment; if that is not set either, the default applies.
struct RuntimeOptions {
  /// "cuda", "sim:NAME" or "sim:FILE.json" (VMART_DRIVER). Default: cuda. Without a GPU the runtime
  /// refuses to open; it never falls back to simulation.
  std::string driver;
  /// CUDA ordinals of the GPUs that may hold and access memory (VMART_DEVICES="0,1"). Default: all.
  std::vector<int> devices;
  /// Bytes that the runtime allocates at most at a place (VMART_CAPACITY="gpu0=4GiB,host0=64GiB").
  std::map<Place, std::size_t> capacity_bytes;
  /// Bytes of released chunks kept on each GPU (VMART_CACHE_BYTES_PER_GPU). Default: 512 MiB.
  std::optional<std::size_t> cache_bytes_per_gpu;
  /// The same for each host node (VMART_HOST_CACHE_BYTES). Default: 1 GiB.
  std::optional<std::size_t> host_cache_bytes;
  /// Moves suspend the program's work, wherever it stands; false: they wait for it, at gates of
  /// attached streams and by holds, as where work cannot be suspended. Default: true, unless
  /// VMART_STOP=gate was set when the process first used vmart, which also outweighs this.
  std::optional<bool> suspend;
  /// How long a hold waits for running work to finish before the synchronous call fails with `busy`
  /// (VMART_HOLD_LIMIT_MS). Default: 2 s.
  std::optional<std::chrono::milliseconds> hold_limit;
  /// Limits both waits of a gate: how long the first stream that arrives waits for the others, and
  /// how long all of them then wait while changed bytes are copied again. When the limit expires,
  /// the gate opens and the move is retried later (VMART_GATE_LIMIT_US). A value set here is an
  /// upper bound for every try. Otherwise, the first try has 5 ms, and each try that times out
  /// doubles the limit for the rest of its migration, up to 80 ms. `MigrationReport::gate_limit`
  /// holds the largest limit used. A gate under which the whole chunk is copied (`Mode::stopped`)
  /// gets additional time for that copy.
  std::optional<std::chrono::microseconds> gate_limit;
  /// How often a gate is retried before the move ends in `busy` (VMART_GATE_RETRIES). Default: 8.
  std::optional<int> gate_retries;
  /// How long one stop of a background move may take (VMART_MAX_STALL_US): from off to on, if it is
  /// a suspension. As many chunks share it as are predicted to move within that time, but at least
  /// one. Default: 5.5 ms.
  std::optional<std::chrono::microseconds> max_stall;
  /// How long background moves may stop the work in each second (VMART_STALL_BUDGET_US, 0 for no
  /// limit; this field rejects zero). Default: 60 ms.
  std::optional<std::chrono::microseconds> stall_budget;
  /// For how long ahead moves that pay may spend it (VMART_STALL_AHEAD_MS, 0: never). Default: 4 s.
  std::optional<std::chrono::milliseconds> stall_ahead;
  /// Moves of a policy stop while the program is not faster with them (VMART_PACE_GUARD=0: they
  /// never do). Default: true.
  std::optional<bool> pace_guard;
  /// Default of `MigrateOptions::copy_share_percent` (VMART_COPY_SHARE): 50.
  std::optional<int> copy_share_percent;
  /// Bytes per second that live and background moves may copy (VMART_COPY_BUDGET, 0 for no limit).
  /// Default: no limit.
  std::optional<std::size_t> copy_budget_bytes;
  /// How long an allocation on, or a move to, a full GPU waits while the runtime evicts chunks, the
  /// coldest first, and without a policy those that came there longest ago, before it fails with
  /// `out_of_memory` (VMART_PRESSURE_LIMIT_MS, 0 to evict nothing). Default: 2 s.
  std::optional<std::chrono::milliseconds> pressure_limit;
  /// Copies that are not live run only in contexts of the runtime's own, which take HBM
  /// (VMART_OWN_CONTEXTS=1).
  bool own_contexts = false;
  /// How all memory can leave the process (VMART_EXPORTABLE="fd,rdma,fabric", 0: not at all).
  /// Default: not at all, except for `AllocOptions::exportable`.
  std::optional<Exportable> exportable;
  /// What moves need is created in the background before the first of them (VMART_PREPARE). For
  /// suspensions, once there is memory: a context of 270 MiB of HBM on each GPU that the program
  /// uses, and a check, which lets the program stand for a millisecond a few times, and keeps
  /// allocations that need new memory waiting for some 0.1 s. For gates, once streams are attached:
  /// kernels, whose loading waits for the program's work, and such allocations for that. False: the
  /// first move creates it, and takes some 0.3 s longer. Default: for suspensions without a policy;
  /// for both with one that moves; else false.
  std::optional<bool> prepare;

  /// The policy that decides placement in the background, "name:parameter=value,..."
  /// (VMART_POLICY). "auto" is the one to start with. Default: none; memory moves only on request.
  std::string policy;
  /// The program's own policies. `policy` and `set_policy` find them by name, like the built-in
  /// ones. `make` runs on any thread, and runs again when a policy hangs and a new instance
  /// replaces it.
  std::vector<PolicyKind> policies;
  /// How often the policy is asked (VMART_TICK_US). Default: 10 ms.
  std::optional<std::chrono::microseconds> tick;
  /// Half-life of a recorded use; the long average uses ten times this value (VMART_HALF_LIFE_MS).
  /// Default: 1 s.
  std::optional<std::chrono::milliseconds> half_life;
  /// The policy decides, but nothing moves (VMART_DRY_RUN=1).
  bool dry_run = false;

  /// The control socket through which `vmart status` and other processes of the same user inspect
  /// and control the runtime: a path, or "auto" (VMART_CONTROL). Default: none. If no policy is
  /// configured, this selects `stay_put`, which never moves anything by itself.
  std::string control;
  /// A trace file of moves, stalls and decisions, for Perfetto (VMART_TIMELINE). Default: none.
  /// "%p" in the name becomes the process id. Selects `stay_put` in the same way as `control`.
  std::string timeline;
};

}  // namespace vma::inline v1
