// A process that exports or imports memory, told by lines on its input; each is answered by one
// line. It ends with its input. Arguments: the driver, the size of a chunk, and VMART_STOP; without
// them, a small simulated machine.

#include "base/clock.hpp"
#include "control/descriptor.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/counting_kernel.hpp"
#include "support/suspension_finding.hpp"
#include "support/test_kernels.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr Dim3 grid{264, 1, 1};
constexpr Dim3 block{256, 1, 1};

class SharePeer {
 public:
  SharePeer(const std::string& driver_name, std::uint64_t chunk_bytes)
      : chunk_bytes_(chunk_bytes), runtime_(options(driver_name)) {
    const bool alone = driver().device_count() == 1;
    for (int gpu = 0; gpu < 2; ++gpu) {
      streams_[gpu] = runtime_.make_stream(vma::gpu(alone ? 0 : gpu));
    }
    if (alone) far_ = host(0);
    mismatches_ = static_cast<std::uint64_t*>(runtime_.alloc(8, host(0)));
  }

  std::string answer(std::istream& line) {
    std::string verb;
    line >> verb;
    try {
      return do_it(verb, line);
    } catch (const Error& error) {
      return fmt::format("error {}", error.what());
    }
  }

 private:
  static RuntimeOptions options(const std::string& driver) {
    RuntimeOptions options;
    options.driver = driver;
    options.hold_limit = std::chrono::seconds(20);
    options.gate_limit = std::chrono::seconds(1);
    return options;
  }

  std::string do_it(const std::string& verb, std::istream& line) {
    if (verb == "alloc") return alloc(line);
    if (verb == "export") return share(line);
    if (verb == "import") return import(line);
    if (verb == "importers") return importers();
    if (verb == "fill") return fill(number(line));
    if (verb == "wrong") return wrong(number(line));
    if (verb == "move") return move(line);
    if (verb == "carry") return carry(line);
    if (verb == "figures") return figures();
    if (verb == "check") return check();
    if (verb == "count") return count(line);
    if (verb == "goes_on") return counter_->goes_on() ? "goes on" : "stands";
    if (verb == "stands") return stands();
    if (verb == "gap") return gap(number(line));
    if (verb == "counted") return counted();
    if (verb == "attach") return attach();
    if (verb == "run") return run(line);
    if (verb == "halt") return halt();
    if (verb == "add") return add(line);
    if (verb == "plus") return plus(line);
    if (verb == "words") return words(number(line));
    if (verb == "where") return to_string(runtime_.where(words_).front().at);
    if (verb == "free") return runtime_.free(words_), "freed";
    if (verb == "close") return exported_->close(), "closed";
    if (verb == "forget") return exported_.reset(), "forgotten";
    if (verb == "user") return become(static_cast<uid_t>(number(line)));
    if (verb == "files") return limit_files(number(line));
    if (verb == "fork") return fork_child();
    if (verb == "crowd") return crowd(line);
    return "error no such verb";
  }

  static std::uint64_t number(std::istream& line) {
    std::uint64_t value = 0;
    line >> value;
    return value;
  }

  std::string alloc(std::istream& line) {
    count_ = number(line);
    AllocOptions options;
    options.chunk_bytes = chunk_bytes_;
    options.exportable = true;
    words_ = static_cast<std::uint64_t*>(runtime_.alloc(count_ * 8, gpu(0), options));
    return "allocated";
  }

  /// export [path user]
  std::string share(std::istream& line) {
    ExportOptions options;
    unsigned user = 0;
    if (line >> options.path >> user) options.users = {user};
    exported_.emplace(runtime_.export_allocation(words_, options));
    return "exported " + exported_->path();
  }

  /// import path limit_ms
  std::string import(std::istream& line) {
    std::string path;
    line >> path;
    ImportOptions options;
    options.limit = std::chrono::milliseconds(number(line));
    words_ = static_cast<std::uint64_t*>(runtime_.import_allocation(path, options));
    count_ = runtime_.size(words_) / 8;
    return fmt::format("imported {}", count_);
  }

  /// move [gpu [deadline_ms]]: to gpu(1) if none is named.
  std::string move(std::istream& line) {
    int to = 1;
    std::uint64_t deadline_ms = 0;
    line >> to >> deadline_ms;
    MigrateOptions options;
    options.deadline = std::chrono::milliseconds(deadline_ms);
    runtime_.migrate(words_, gpu(to), options);
    return "moved";
  }

  /// carry count [deadline_ms [held]]: moves it to and fro in the background, beside the attached
  /// streams of this process if it has any. Says how many moves succeeded.
  std::string carry(std::istream& line) {
    const std::uint64_t count = number(line);
    std::uint64_t deadline_ms = 0;
    std::string how;
    line >> deadline_ms >> how;
    MigrateOptions options;
    options.deadline = std::chrono::milliseconds(deadline_ms);
    if (how == "held" || (!attached_ && !suspends())) options.scope = StopScope::hold;
    std::uint64_t done = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      try {
        const Place at = runtime_.where(words_).front().at;
        const MigrationReport report =
            runtime_.migrate_async(words_, at == gpu(0) ? far_ : gpu(0), options).wait();
        walls_us_.push_back(in_us(report.wall));
        stalls_us_.push_back(in_us(report.importer_stall));
        ++done;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::busy) throw;
      }
    }
    return fmt::format("carried {}", done);
  }

  /// Of the moves so far.
  std::string figures() {
    return fmt::format("a move takes {}, and stops importers for {} us", spread(walls_us_),
                       spread(stalls_us_));
  }
  static std::string spread(std::vector<double>& values) {
    if (values.empty()) return "nothing";
    std::ranges::sort(values);
    return fmt::format("{:.0f} (median; {:.0f} at most)", values[values.size() / 2], values.back());
  }
  static double in_us(std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::micro>(time).count();
  }

  // --- Work that moves have to suspend

  Driver& driver() { return *RuntimeParts::of(runtime_).driver; }
  static bool suspends() {
    const char* const stop = std::getenv("VMART_STOP");
    return stop != nullptr && std::string(stop) == "suspend";
  }

  /// Whether work can be suspended, or why not.
  std::string check() {
    Migrator& migrator = RuntimeParts::of(runtime_).machinery->migrator;
    for (int gpu = 0; gpu < driver().device_count(); ++gpu) {
      const SuspensionFinding found = decided_finding(migrator, driver().clock(), DeviceId{gpu});
      if (found.state != SuspensionFinding::State::usable) return found.why;
    }
    return "usable";
  }

  /// count begin count: a kernel that never ends adds 1 to these words again and again, on a stream
  /// that the runtime does not know, until `counted`.
  std::string count(std::istream& line) {
    std::uint64_t* const begin = words_ + number(line);
    if (is_none(primary_)) primary_ = driver().retain_primary(DeviceId{0});
    counter_.emplace(driver(), primary_, std::span(begin, number(line)));
    return "counting";
  }
  std::string counted() {
    const std::uint64_t beats = counter_->end();
    counter_.reset();
    return fmt::format("counted {}", beats);
  }

  /// Once it has not counted for so long.
  std::string stands() {
    constexpr std::chrono::milliseconds still(100);
    constexpr std::chrono::seconds limit(20);
    SteadyClock clock;
    const TimePoint end = clock.now() + limit;
    TimePoint changed = clock.now();
    for (std::uint64_t last = counter_->beats(); clock.now() < end; std::this_thread::yield()) {
      const std::uint64_t beats = counter_->beats();
      if (beats != std::exchange(last, beats)) changed = clock.now();
      if (clock.now() - changed >= still) return "stands";
    }
    return "goes on";
  }

  /// gap ms: the longest time in so many that it did not count.
  std::string gap(std::uint64_t milliseconds) {
    SteadyClock clock;
    const TimePoint end = clock.now() + std::chrono::milliseconds(milliseconds);
    TimePoint changed = clock.now();
    std::chrono::nanoseconds longest{0};
    for (std::uint64_t last = counter_->beats(); clock.now() < end; std::this_thread::yield()) {
      const std::uint64_t beats = counter_->beats();
      if (beats == std::exchange(last, beats)) continue;
      longest = std::max<std::chrono::nanoseconds>(longest, clock.now() - changed);
      changed = clock.now();
    }
    longest = std::max<std::chrono::nanoseconds>(longest, clock.now() - changed);
    return fmt::format("gap {:.0f}", in_us(longest));
  }

  std::string attach() {
    for (const Stream stream : streams_) runtime_.attach(stream, words_);
    attached_ = true;
    return "attached";
  }

  /// run begin count: adds 1 to these words again and again, on the attached stream, until `halt`.
  std::string run(std::istream& line) {
    std::uint64_t* const begin = words_ + number(line);
    const std::uint64_t count = number(line);
    add_once(begin, count);  // The first launch of a kernel waits for other work.
    runtime_.synchronize(streams_[0]);
    halting_ = false;
    runner_ = std::thread([this, begin, count] {
      constexpr int launches_ahead = 8;
      while (!halting_) {
        for (int i = 0; i < launches_ahead; ++i) add_once(begin, count);
        runtime_.synchronize(streams_[0]);
      }
    });
    return "running";
  }

  void add_once(std::uint64_t* begin, std::uint64_t count) {
    runtime_.launch(streams_[0], add_kernel(), grid, block,
                    KernelArguments::of(begin, count, std::uint64_t{1}));
    ++ran_;
  }

  /// add begin count times
  std::string add(std::istream& line) {
    std::uint64_t* const begin = words_ + number(line);
    const std::uint64_t count = number(line);
    for (std::uint64_t left = number(line); left > 0; --left) add_once(begin, count);
    runtime_.synchronize(streams_[0]);
    return "added";
  }

  /// plus begin count what: adds that to these words, once.
  std::string plus(std::istream& line) {
    std::uint64_t* const begin = words_ + number(line);
    const std::uint64_t count = number(line);
    runtime_.launch(streams_[0], add_kernel(), grid, block,
                    KernelArguments::of(begin, count, number(line)));
    runtime_.synchronize(streams_[0]);
    return "added";
  }

  /// Whether the first words are one more each.
  std::string words(std::uint64_t count) {
    std::vector<std::uint64_t> found(count);
    runtime_.read(words_, std::as_writable_bytes(std::span(found)));
    for (std::uint64_t i = 1; i < count; ++i) {
      if (found[i] != found[0] + i) return fmt::format("words wrong from {}", i);
    }
    return "words right";
  }

  /// Says how often it has added.
  std::string halt() {
    halting_ = true;
    runner_.join();
    return fmt::format("ran {}", ran_.load());
  }

  std::string importers() {
    std::string text = "importers";
    for (const Importer& importer : exported_->importers())
      text += fmt::format(" {}", importer.process);
    return text;
  }

  std::string fill(std::uint64_t seed) {
    runtime_.launch(streams_[0], fill_kernel(), grid, block,
                    KernelArguments::of(words_, count_, seed));
    runtime_.synchronize(streams_[0]);
    return "filled";
  }

  /// As a kernel of the other GPU reads it.
  std::string wrong(std::uint64_t seed) {
    const std::uint64_t none = 0;
    runtime_.write(mismatches_, std::as_bytes(std::span(&none, 1)));
    runtime_.launch(streams_[1], compare_kernel(), grid, block,
                    KernelArguments::of(words_, count_, seed, mismatches_));
    runtime_.synchronize(streams_[1]);
    std::uint64_t found = 0;
    runtime_.read(mismatches_, std::as_writable_bytes(std::span(&found, 1)));
    return fmt::format("wrong {}", found);
  }

  static std::string become(uid_t user) {
    return setresuid(user, user, user) == 0 ? "became" : "error setresuid";
  }

  static std::string limit_files(std::uint64_t files) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = files;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? "limited" : "error setrlimit";
  }

  /// Leaves behind a process that has all descriptors of this one, and ends with its input.
  static std::string fork_child() {
    const pid_t child = fork();
    if (child > 0) return "forked";
    if (child < 0) return "error fork";
    close(STDOUT_FILENO);  // The end of the parent is also that of its answers.
    pollfd input{STDIN_FILENO, 0, 0};
    constexpr int limit_ms = 120'000;
    poll(&input, 1, limit_ms);  // Nobody writes any more.
    _exit(0);
  }

  /// crowd path count: connects so often, and says nothing.
  std::string crowd(std::istream& line) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path;
    line >> path;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    for (std::uint64_t left = number(line); left > 0; --left) {
      Descriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));  // Waits for its turn.
      if (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return "error connect";
      crowd_.push_back(std::move(made));
    }
    return "crowded";
  }

  const std::uint64_t chunk_bytes_;
  Runtime runtime_;
  Stream streams_[2] = {};
  Place far_ = gpu(1);  // Where `carry` moves memory from gpu(0).
  std::uint64_t* mismatches_ = nullptr;
  std::uint64_t* words_ = nullptr;
  std::uint64_t count_ = 0;
  std::optional<ExportedAllocation> exported_;
  std::vector<double> walls_us_, stalls_us_;
  bool attached_ = false;
  std::atomic<bool> halting_{false};
  std::atomic<std::uint64_t> ran_{0};
  std::thread runner_;
  std::vector<Descriptor> crowd_;
  ContextHandle primary_{};
  std::optional<CountingKernel> counter_;
};

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool chosen = arguments.size() >= 2;
  if (arguments.size() == 3) setenv("VMART_STOP", arguments[2].c_str(), 1);
  vma::SharePeer peer(chosen ? arguments[0] : "sim:test-2",
                      chosen ? std::stoull(arguments[1]) : 8192);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::cout << peer.answer(words) << std::endl;
  }
  return 0;
}
