// A process that exports or imports memory of a simulated machine, told by lines on its input; each
// is answered by one line. It ends with its input.

#include "control/descriptor.hpp"
#include "support/test_kernels.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t chunk_bytes = 8192;

class SharePeer {
 public:
  SharePeer() : runtime_(options()) {
    for (int gpu = 0; gpu < 2; ++gpu) streams_[gpu] = runtime_.make_stream(vma::gpu(gpu));
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
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.driver = "sim:test-2";
    return options;
  }

  std::string do_it(const std::string& verb, std::istream& line) {
    if (verb == "alloc") return alloc(line);
    if (verb == "export") return share(line);
    if (verb == "import") return import(line);
    if (verb == "importers") return importers();
    if (verb == "fill") return fill(number(line));
    if (verb == "wrong") return wrong(number(line));
    if (verb == "move") return runtime_.migrate(words_, gpu(1)), "moved";
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
    options.chunk_bytes = chunk_bytes;
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

  std::string importers() {
    std::string text = "importers";
    for (const Importer& importer : exported_->importers())
      text += fmt::format(" {}", importer.process);
    return text;
  }

  std::string fill(std::uint64_t seed) {
    runtime_.launch(streams_[0], fill_kernel(), {}, {}, KernelArguments::of(words_, count_, seed));
    runtime_.synchronize(streams_[0]);
    return "filled";
  }

  /// As a kernel of the other GPU reads it.
  std::string wrong(std::uint64_t seed) {
    const std::uint64_t none = 0;
    runtime_.write(mismatches_, std::as_bytes(std::span(&none, 1)));
    runtime_.launch(streams_[1], compare_kernel(), {}, {},
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

  Runtime runtime_;
  Stream streams_[2] = {};
  std::uint64_t* mismatches_ = nullptr;
  std::uint64_t* words_ = nullptr;
  std::uint64_t count_ = 0;
  std::optional<ExportedAllocation> exported_;
  std::vector<Descriptor> crowd_;
};

}  // namespace
}  // namespace vma

int main() {
  vma::SharePeer peer;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::cout << peer.answer(words) << std::endl;
  }
  return 0;
}
