#pragma once

#include "control/control_socket.hpp"
#include "runtime/runtime_parts.hpp"
#include "sharing/share_channel.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace vma {

inline constexpr std::uint64_t words_shared = 3 * chunk_bytes / 8;

inline TimePoint soon() {
  const SteadyClock clock;
  return clock.now() + std::chrono::seconds(20);
}

inline ShareMessage message_of(ShareKind kind, std::uint64_t first = 0) {
  ShareMessage message;
  message.kind = kind;
  message.first = first;
  return message;
}

inline RuntimeOptions exportable(RuntimeOptions options = {}) {
  options.exportable = Exportable{.descriptor = true};
  return options;
}

/// Listens where an exporter would, and says what it likes.
class FalseExporter {
 public:
  FalseExporter()
      : socket_("/tmp/vmart-false-" + std::to_string(getpid()), {.type = SOCK_SEQPACKET}),
        listening_(socket_.release()) {}
  const std::string& path() const { return socket_.path(); }
  ShareChannel accept() const {
    SteadyClock clock;
    int peer = -1;
    poll_until(clock, soon(), [&] {
      return (peer = ::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK)) >= 0;
    });
    return ShareChannel(Descriptor(peer));
  }
  /// From here on, who connects finds an exporter that has ended; this process keeps its socket
  /// open, as a forked child would.
  void end() const {
    const pid_t child = fork();
    if (child == 0) _exit(::listen(listening_.get(), 8));  // The kernel takes the last one.
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

 private:
  ControlSocket socket_;
  Descriptor listening_;
};

class SharingTest : public testing::Test {
 protected:
  explicit SharingTest(const RuntimeOptions& options = {})
      : exporter("test-2", exportable(options)),
        importer("test-2", options),
        words(exporter.alloc(3 * chunk_bytes, gpu(0))) {
    exporter.write(words, words_shared, 40);
  }

  ExportedAllocation share(const ExportOptions& options = {
                               .import_limit = std::chrono::minutes(1)}) {
    return exporter.runtime().export_allocation(words, options);
  }
  std::uint64_t* import(const ExportedAllocation& exported,
                        const ImportOptions& options = {.limit = std::chrono::minutes(1)}) {
    return static_cast<std::uint64_t*>(
        importer.runtime().import_allocation(exported.path(), options));
  }
  static ShareChannel peer(const ExportedAllocation& exported) {
    return ShareChannel::connect(exported.path(), soon());
  }
  static void say(const ShareChannel& channel, std::string_view bytes) {
    ASSERT_EQ(::send(channel.native(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// What the exporter refuses with.
  static ErrorKind refused(ShareChannel& channel) {
    const ShareMessage answer = channel.receive(soon());
    EXPECT_EQ(answer.kind, ShareKind::refusal);
    EXPECT_FALSE(answer.text.empty());
    EXPECT_EQ(kind_of_error([&] { channel.receive(soon()); }), ErrorKind::peer_failure)
        << "the connection ends";
    return answer.error;
  }
  /// A peer that has asked properly so far.
  static ShareChannel greeted(const ExportedAllocation& exported) {
    ShareChannel channel = peer(exported);
    channel.send(message_of(ShareKind::hello), soon());
    EXPECT_EQ(channel.receive(soon()).kind, ShareKind::offer);
    return channel;
  }
  static bool no_importer_left(const ExportedAllocation& exported) {
    SteadyClock clock;
    return poll_until(clock, soon(), [&] { return exported.importers().empty(); });
  }

  RuntimeRig exporter, importer;
  std::uint64_t* words;
};

}  // namespace vma
