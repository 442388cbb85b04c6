#include "faults/life.hpp"

#include "runtime/runtime_parts.hpp"
#include "support/announce.hpp"
#include "support/test_kernels.hpp"
#include "support/test_machines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <optional>

namespace vma {
namespace {

constexpr std::uint64_t page = life_page;
constexpr std::uint64_t chunk_bytes = life_chunk_bytes;
constexpr std::uint64_t size_bytes = 2 * chunk_bytes + page;  // Three slots, the last one shorter.
constexpr std::uint64_t words = size_bytes / sizeof(std::uint64_t);

Settings settings_of(const LifePlan& plan) {
  Settings settings;
  settings.own_contexts = plan.own_contexts;
  settings.suspends = plan.suspends;
  settings.cache_bytes_per_gpu = 2 * chunk_bytes;  // So small that chunks are released.
  settings.host_cache_bytes = 2 * chunk_bytes;
  settings.hold_limit = std::chrono::milliseconds(20);
  return settings;
}

std::vector<std::uint64_t> pattern(std::uint64_t content) {
  std::vector<std::uint64_t> pattern(words);
  for (std::uint64_t i = 0; i < words; ++i) pattern[i] = content + i;
  return pattern;
}

bool is_mapped(SimDriver& machine, Address address) {
  try {
    machine.pointer_info(address);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string describe(const LifePlan& plan) {
  return fmt::format("seed {}, failing calls [{}]{}", plan.seed, fmt::join(plan.fail, ", "),
                     plan.own_contexts ? ", copies in contexts of the runtime's own"
                     : plan.suspends   ? ", suspending"
                                       : "");
}

LifeOutcome Life::live(const LifePlan& plan) {
  announce(describe(plan));
  SteppedExecutor executor({plan.seed, 16});
  LifeOutcome outcome;
  executor.run([&] {
    Life life(plan, executor);  // Created inside the run, because the machine has its own threads.
    try {
      life.run();
    } catch (const std::exception& error) {
      life.problem("life", error.what());
    }
    life.runtime_.reset();
    if (plan.disturbed) plan.disturbed();
    outcome = std::move(life.outcome_);
  });
  return outcome;
}

Life::Life(const LifePlan& plan, SteppedExecutor& executor)
    : plan_(plan), machine_(test_machine("test-2"), {&executor, plan.seed, 64 << 20, false}) {}

void Life::problem(const char* stage, const std::string& text) {
  outcome_.problems.push_back(fmt::format("{}: {}", stage, text));
}

bool Life::disturbed() const {
  return outcome_.fired + faults_->fired() > 0 || (plan_.disturbed && plan_.disturbed());
}

void Life::arm() {
  if (plan_.arm) plan_.arm(true);
  std::set<int> numbers;
  for (const int number : plan_.fail) {
    if (number >= counted_before_) numbers.insert(number - counted_before_);
  }
  faults_->fail_calls(numbers);
}

/// Keeps the count, so that numbers continue through the whole life.
void Life::disarm() {
  if (plan_.arm) plan_.arm(false);
  const std::vector<Call> seen = faults_->seen();
  outcome_.seen.insert(outcome_.seen.end(), seen.begin(), seen.end());
  outcome_.fired += faults_->fired();
  counted_before_ += static_cast<int>(seen.size());
  faults_->fail_calls({});
  outcome_.failed = faults_->failed();
}

bool Life::attempt(const char* stage, const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    outcome_.errors.push_back(fmt::format("{}: {}", stage, error.what()));
    if (!disturbed() || std::string_view(error.what()).find("deadlock") != std::string::npos) {
      problem(stage, error.what());
    }
  } catch (const std::exception& error) {
    problem(stage, fmt::format("not a vma::Error: {}", error.what()));
  }
  return false;
}

/// Runs without faults; nothing may fail here.
void Life::undisturbed(const char* stage, const std::function<void()>& body) {
  if (plan_.driver_lost && disturbed()) return;
  disarm();
  try {
    body();
  } catch (const std::exception& error) {
    if (!plan_.driver_lost || !disturbed()) {
      problem(stage, fmt::format("later: {}", error.what()));
    }
  }
  arm();
}

void Life::run() {
  open();
  if (runtime_) {
    outcome_.opened = true;
    use();
    end();
  }
  check_leaks();
}

void Life::open() {
  std::unique_ptr<Driver> below = plan_.wrap ? plan_.wrap(machine_) : nullptr;
  faults_ = below ? std::make_unique<FaultDriver>(std::move(below))
                  : std::make_unique<FaultDriver>(static_cast<Driver&>(machine_));
  arm();
  attempt("open", [&] {
    // A runtime owns its driver. A forwarding driver leaves the counts to this object.
    auto driver = std::make_unique<FaultDriver>(static_cast<Driver&>(*faults_));
    auto parts = std::make_unique<RuntimeParts>(std::move(driver), settings_of(plan_));
    leaked_ = parts->machinery->memory.chunks().ledger().leak_count();
    kept_ = parts->machinery->memory.chunks().ledger().kept_count();
    runtime_ = unique_runtime_of(std::move(parts));
  });
  if (!runtime_) disarm();
}

void Life::allocate() {
  const auto body = [&] {
    if (memory_ == nullptr) memory_ = runtime_->alloc(size_bytes, gpu(0), {chunk_bytes, "life"});
  };
  if (!attempt("alloc", body)) undisturbed("alloc", body);
}

void Life::write() {
  content_ = 1000;
  const std::vector<std::uint64_t> bytes = pattern(content_);
  const auto body = [&] { runtime_->write(memory_, std::as_bytes(std::span(bytes))); };
  if (!attempt("write", body)) undisturbed("write", body);
}

/// A launch that throws did not launch; one that returned runs, whatever follows.
void Life::run_kernel() {
  if (outcome_.poisoned || streams_.empty()) return;
  const std::uint64_t next = content_ + 77;
  const auto launched = [&] {
    runtime_->launch(streams_.back(), fill_kernel(), {}, {},
                     KernelArguments::of(memory_, words, next));
  };
  if (!attempt("launch", launched)) return;
  content_ = next;
  const auto ended = [&] { runtime_->synchronize(streams_.back()); };
  if (!attempt("synchronize", ended)) undisturbed("synchronize", ended);
}

/// Records a kernel that the program launches itself, twice: each use is recorded once or not at
/// all.
void Life::record_launch() {
  if (streams_.empty()) return;
  const ContextHandle context = machine_.retain_primary(DeviceId{0});
  const KernelHandle kernel = machine_.load_kernel(context, fill_kernel());
  const void* parameters[] = {&memory_, &words, &content_};
  const auto recorded = [&] {
    const auto number = static_cast<std::uint64_t>(kernel);
    runtime_->record_launch(reinterpret_cast<const void*>(number), parameters, gpu(0));
  };
  for (int launch = 0; launch < 2; ++launch) {
    if (!attempt("record_launch", recorded)) undisturbed("record_launch", recorded);
  }
  undisturbed("uses", [&] {
    std::vector<LoggedUse> uses;
    parts_of(*runtime_).uses->collect(uses, 10);
    const bool whole = uses.size() == 2 && uses[0].address == address_of(memory_) &&
                       uses[1].address == address_of(memory_);
    if (!whole) problem("uses", fmt::format("{} uses, not two of the memory", uses.size()));
  });
  machine_.unload_kernel(kernel);
  machine_.release_primary(DeviceId{0});
}

void Life::move(const char* stage, const std::function<void()>& body) {
  undisturbed(stage, [&] {
    if (outcome_.poisoned) return;
    content_ += 1'000'000;  // A reused chunk may still hold the old bytes.
    const std::vector<std::uint64_t> bytes = pattern(content_);
    runtime_->write(memory_, std::as_bytes(std::span(bytes)));
  });
  attempt(stage, body);
  check(stage);
}

void Life::attach(std::vector<AttachedStream>& attached) {
  const auto attach_all = [&] {
    for (std::size_t i = attached.size(); i < streams_.size(); ++i) {
      attached.emplace_back(*runtime_, streams_[i]);
    }
  };
  if (!attempt("attach", attach_all)) undisturbed("attach", attach_all);
}

/// Moves new contents from the host to HBM and back while they are read-only; then writes to them,
/// and moves the chunks back once more.
void Life::come_and_go(const char* stage, const std::function<void(Place to)>& body) {
  std::optional<ReadOnly> nobody_writes;
  undisturbed(stage, [&] {
    if (outcome_.poisoned) return;
    runtime_->migrate(memory_, host(0));
    content_ += 1'000'000;
    const std::vector<std::uint64_t> bytes = pattern(content_);
    runtime_->write(memory_, std::as_bytes(std::span(bytes)));
    nobody_writes = runtime_->read_only(memory_);
  });
  for (const Place to : {gpu(0), host(0), gpu(1)}) {
    attempt(stage, [&] { body(to); });
    check(stage);
  }
  undisturbed(stage, [&] { nobody_writes.reset(); });
  move(stage, [&] { body(host(0)); });
}

void Life::leave_clean_copies() {
  MigrateOptions options;
  options.keep_clean_copy = true;
  come_and_go("clean copies", [&](Place to) { runtime_->migrate(memory_, to, options); });
  std::vector<AttachedStream> attached;
  attach(attached);
  come_and_go("live clean copies",
              [&](Place to) { runtime_->migrate_async(memory_, to, options).wait(); });
  undisturbed("clean copies", [&] {
    attached.clear();
    outcome_.bytes_remapped = runtime_->stats().bytes_remapped;
  });
}

/// Moves next to kernels, at gates of the streams.
void Life::move_live(const char* stage, Place to) {
  std::vector<AttachedStream> attached;
  attach(attached);
  move(stage, [&] {
    MigrateOptions options;
    options.wait_for_pins = true;
    runtime_->migrate_async(memory_, to, options).wait();
  });
  undisturbed("detach", [&] { attached.clear(); });
}

void Life::use() {
  const auto open_streams = [&] {
    for (int i = static_cast<int>(streams_.size()); i < 2; ++i) {
      streams_.push_back(runtime_->make_stream(gpu(i)));
    }
  };
  if (!attempt("make_stream", open_streams)) undisturbed("make_stream", open_streams);
  undisturbed("set up",
              [&] { mismatches_ = static_cast<std::uint64_t*>(runtime_->alloc(page, host(0))); });
  allocate();
  if (memory_ == nullptr) return;
  write();
  check("write");
  run_kernel();
  record_launch();
  check("kernel");
  move("to gpu(1)", [&] { runtime_->migrate(memory_, gpu(1)); });
  move("to host(0)", [&] { runtime_->migrate(memory_, host(0)); });
  move("range to gpu(0)", [&] { runtime_->migrate(memory_, chunk_bytes, page, gpu(0)); });
  run_kernel();
  move_live("live to gpu(1)", gpu(1));
  move_live("live to gpu(0)", gpu(0));
  move_live("live to gpu(1) again", gpu(1));  // With what the first one has made.
  move_live("live to host(0)", host(0));
  move("all to gpu(1)", [&] {
    MigrateOptions options;
    options.reserve_first = true;
    runtime_->migrate(memory_, gpu(1), options);
  });
  undisturbed("move once more", [&] {
    if (outcome_.poisoned) return;
    runtime_->migrate(memory_, gpu(0));
    if (runtime_->where(memory_).size() != 1) problem("move once more", "not at one place");
  });
  check("move once more");
  move_group("group", {});
  drop_and_resume();
  if (plan_.clean_copies) leave_clean_copies();
  free();
}

/// Parks a separate allocation without its contents: each chunk is whole or dropped, and comes
/// back.
void Life::drop_and_resume() {
  void* memory = nullptr;
  undisturbed("alloc to drop", [&] {
    memory = runtime_->alloc(chunk_bytes + page, gpu(1), {chunk_bytes, "dropped"});
  });
  if (memory == nullptr) return;
  const auto check_all = [&](const char* stage) {
    undisturbed(stage, [&] {
      Memory& parts = parts_of(*runtime_).machinery->memory;
      parts.chunks().slow_calls().await_empty();
      parts.check_invariants();
      if (!parts.require(memory, "check")->poisoned()) check_mappings(stage, memory);
    });
  };
  ParkOptions dropping;
  dropping.contents = ParkContents::drop;
  attempt("drop", [&] { runtime_->park("dropped", dropping); });
  check_all("drop");
  attempt("resume", [&] {
    if (runtime_->is_parked("dropped")) runtime_->resume("dropped");
  });
  check_all("resume");
  undisturbed("resume again", [&] {
    if (runtime_->is_parked("dropped")) runtime_->resume("dropped");
    if (runtime_->is_parked("dropped")) problem("resume again", "it is parked still");
    if (runtime_->stats().dropped_bytes > 0) problem("resume again", "it has no memory");
  });
  check_all("resume again");
  undisturbed("free what was dropped", [&] { runtime_->free(memory); });
}

void Life::free() {
  const auto body = [&] { runtime_->free(memory_); };
  if (!attempt("free", body)) {
    check("free");  // A free that threw has freed nothing.
    undisturbed("free", body);
  }
  undisturbed("after free", [&] {
    try {
      runtime_->where(memory_);
      problem("after free", "the pointer is still known");
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unknown_pointer) throw;
    }
    parts_of(*runtime_).machinery->memory.chunks().slow_calls().await_empty();
    parts_of(*runtime_).machinery->memory.check_invariants();
  });
  memory_ = nullptr;
  // Uses the asynchronous free, so that an event is waited for.
  void* second = nullptr;
  if (attempt("alloc again", [&] { second = runtime_->alloc(page, gpu(1)); }) && !streams_.empty())
    attempt("free_async", [&] { runtime_->free_async(second, streams_.front()); });
  for (const Stream stream : streams_)
    attempt("destroy_stream", [&] { runtime_->destroy_stream(stream); });
}

void Life::end() {
  runtime_->shutdown();
  disarm();
  runtime_.reset();
}

void Life::check(const char* stage) {
  undisturbed(stage, [&] {
    Memory& memory = parts_of(*runtime_).machinery->memory;
    memory.chunks().slow_calls().await_empty();
    memory.check_invariants();
    outcome_.poisoned = memory.require(memory_, "check")->poisoned();
    check_bytes(stage);
    if (outcome_.poisoned) return check_poisoned(stage);
    check_mappings(stage);
    check_kernels(stage);
  });
}

void Life::check_bytes(const char* stage) {
  std::vector<std::uint64_t> bytes(words);
  runtime_->read(memory_, std::as_writable_bytes(std::span(bytes)));
  if (bytes != pattern(content_)) problem(stage, "the bytes are not those that were written");
}

/// Every call except `read`, `where` and `free` reports the poisoning.
void Life::check_poisoned(const char* stage) {
  const std::byte byte{1};
  const auto refuses = [&](const char* call, const std::function<void()>& body) {
    try {
      body();
      problem(stage, fmt::format("{} ignored the poison", call));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::poisoned) problem(stage, error.what());
    }
  };
  refuses("migrate", [&] { runtime_->migrate(memory_, gpu(1)); });
  refuses("write", [&] { runtime_->write(memory_, {&byte, 1}); });
  refuses("host_view", [&] { static_cast<void>(runtime_->host_view(memory_, 1)); });
  if (runtime_->stats().poisoned != 1) problem(stage, "stats do not count the poisoned one");
}

/// The driver shows what `where` says, and all devices that can reach the memory have access.
void Life::check_mappings(const char* stage) {
  check_mappings(stage, memory_);
}

void Life::check_mappings(const char* stage, const void* memory) {
  const Topology& topology = parts_of(*runtime_).machinery->topology;
  const Access most = parts_of(*runtime_).machinery->memory.require(memory, "check")->access();
  for (const Extent& extent : runtime_->where(memory)) {
    for (std::uint64_t offset = 0; offset < extent.bytes; offset += page) {
      const Address address = address_of(memory) + extent.offset + offset;
      if (extent.dropped) {
        if (is_mapped(machine_, address))
          problem(stage, "something is mapped where it was dropped");
        continue;
      }
      if (machine_.pointer_info(address).at != extent.at) {
        problem(stage, fmt::format("offset {} is not at {}", extent.offset + offset,
                                   to_string(extent.at)));
      }
      for (const Accessor& reader : topology.readers(extent.at)) {
        if (machine_.access(address, reader.who) == std::min(reader.access, most)) continue;
        problem(stage, fmt::format("{} has lost access at offset {}", to_string(reader.who),
                                   extent.offset + offset));
      }
    }
  }
}

/// Kernels of every GPU read the pattern through the pointer.
void Life::check_kernels(const char* stage) {
  for (const Stream stream : streams_) {
    std::uint64_t wrong = 0;
    runtime_->write(mismatches_, std::as_bytes(std::span(&wrong, 1)));
    runtime_->launch(stream, compare_kernel(), {}, {},
                     KernelArguments::of(memory_, words, content_, mismatches_));
    runtime_->synchronize(stream);
    runtime_->read(mismatches_, std::as_writable_bytes(std::span(&wrong, 1)));
    if (wrong != 0) problem(stage, fmt::format("a kernel saw {} words that differ", wrong));
  }
}

void Life::check_leaks() {
  const std::vector<std::string> left = machine_.leaks();
  // If two calls fail while opening, a leak may be reported in the log only.
  const std::uint64_t counted = leaked_ ? *leaked_ + *kept_ : outcome_.fired > 1 ? 1 : 0;
  if (plan_.driver_lost || left.empty() || counted > 0) return;
  problem("end", fmt::format("left behind and not counted: {}", fmt::join(left, ", ")));
}

}  // namespace vma
