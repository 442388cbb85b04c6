// Goal: root's `vmart` controls the programs of other users, and none of them can end it, hold it
// up, flood it or forge what it shows. Method: a process of another user that answers as it likes.
#include "unit/control/asio_control_tool_test.hpp"

#include "control/own_folder.hpp"

#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace vma {
namespace {

/// A process of another user that listens in a folder of its own and answers each request with
/// `answer`; without one it never accepts.
class OtherUser {
 public:
  static constexpr uid_t user = 65'534;
  static constexpr const char* drops = "byte by byte";  // An answer that never ends.

  explicit OtherUser(const std::string& answer) {
    path_ = fmt::format("/tmp/vmart-{}-{}/7.sock", user, getpid());
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) listen_as_other(ready[1], answer);
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~OtherUser() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }
  pid_t pid() const { return child_; }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void listen_as_other(int ready, const std::string& answer) {
    const std::string folder = std::filesystem::path(path_).parent_path();
    if (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0) _exit(1);
    mkdir(folder.c_str(), 0700);
    const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    if (bind(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) _exit(2);
    if (chmod(path_.c_str(), 0600) != 0 || listen(socket_fd, 4) != 0) _exit(3);
    static_cast<void>(write(ready, "r", 1));
    while (answer.empty()) pause();
    for (;;) {
      const int peer = accept(socket_fd, nullptr, nullptr);
      char bytes[4096];
      while (read(peer, bytes, sizeof bytes) > 0) {
        while (answer == drops && send(peer, " ", 1, MSG_NOSIGNAL) == 1) poll(nullptr, 0, 10);
        static_cast<void>(send(peer, answer.data(), answer.size(), MSG_NOSIGNAL));
      }
      close(peer);
    }
  }

  std::string path_;
  pid_t child_ = -1;
};

class OtherUsersProgramTest : public ControlToolTest {
 protected:
  void SetUp() override {
    ControlToolTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can play a second user";
    setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  }
  ~OtherUsersProgramTest() override { unsetenv("XDG_RUNTIME_DIR"); }
  TestFolder folder_;
};

TEST_F(OtherUsersProgramTest, IsFoundAndAskedByRoot) {
  const OtherUser other("{\"ok\":{\"description\":\"theirs\",\"pid\":1,\"places\":[]}}\n");
  const Ran by_pid = run_tool(fmt::format("status --pid {}", other.pid()));
  EXPECT_EQ(by_pid.code, 0) << by_pid.text;
  EXPECT_NE(by_pid.text.find("theirs"), std::string::npos) << by_pid.text;
  EXPECT_EQ(run_tool("status --socket " + other.path()).code, 0);
  const Ran top = run_tool("top");
  EXPECT_NE(top.text.find(std::to_string(other.pid())), std::string::npos)
      << "the kernel's id of the process, whatever it says itself\n"
      << top.text;
  const Ran named = run_tool("status --pid 99999999");
  EXPECT_NE(named.text.find(fmt::format("{} (control_test, user 65534)", other.pid())),
            std::string::npos)
      << named.text;
}

TEST_F(OtherUsersProgramTest, CannotHoldRootUpOrForgeItsTerminal) {
  {
    std::filesystem::create_symlink(rig_.path(), own_folder() + "/1.sock");
    const OtherUser silent("");  // Its queue takes some connections, which nobody answers.
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run_tool("top --json").code, 0);
  }
  const OtherUser other("{\"ok\":{\"description\":\"\\u001b[31mred\",\"places\":[]}}\n");
  const Ran ran = run_tool(fmt::format("status --pid {}", other.pid()));
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(ran.text.find('\x1b'), std::string::npos) << ran.text;
  const OtherUser* const again = &other;
  std::filesystem::remove(again->path());
  std::filesystem::create_symlink(rig_.path(), again->path());
  const Ran redirected = run_tool("status --socket " + again->path());
  EXPECT_EQ(redirected.code, 1) << "a link of one user to the socket of another\n"
                                << redirected.text;
  EXPECT_NE(redirected.text.find("is not trusted"), std::string::npos) << redirected.text;
}

TEST_F(OtherUsersProgramTest, CannotHoldRootUpByAnAnswerWithoutAnEnd) {
  std::filesystem::create_symlink(rig_.path(), own_folder() + "/1.sock");
  const OtherUser other(OtherUser::drops);
  const Ran ran = run_tool("top");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_NE(ran.text.find("vmart  1 programs"), std::string::npos) << ran.text;
}

TEST_F(OtherUsersProgramTest, CannotEndOrFloodTheTopOfRoot) {
  std::filesystem::create_symlink(rig_.path(), own_folder() + "/1.sock");
  for (const char* places : {"[1]", "[{}]", "[{\"at\":\"moon\"}]", "7"}) {
    const OtherUser other(fmt::format("{{\"ok\":{{\"places\":{}}}}}\n", places));
    for (const char* command : {"top", "top --json"}) {
      const Ran ran = run_tool(command);
      EXPECT_EQ(ran.code, 0) << places << "\n" << ran.text;
      EXPECT_NE(ran.text.find(std::to_string(getpid())), std::string::npos) << ran.text;
      EXPECT_EQ(ran.text.find(std::to_string(other.pid())), std::string::npos) << ran.text;
    }
    const Ran alone = run_tool(fmt::format("top --pid {}", other.pid()));
    EXPECT_EQ(alone.code, 0) << "missing members read as empty\n" << alone.text;
  }
  std::string many;
  for (int i = 0; i < 100'000; ++i) {
    many += fmt::format("{}{{\"at\":\"gpu({:0100})\"}}", i == 0 ? "" : ",", i);
  }
  const OtherUser other(fmt::format("{{\"ok\":{{\"policy\":\"{}\",\"places\":[{}]}}}}\n",
                                    std::string(1000, 'x'), many));
  const Ran ran = run_tool("top");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.text.find(std::to_string(other.pid())), std::string::npos);
  EXPECT_LT(ran.text.size(), 10'000U);
}

TEST_F(OtherUsersProgramTest, SpeaksNothingElse) {
  for (const char* answer : {"[]\n", "{}\n", "{\"ok\":7}\n", "nonsense\n"}) {
    const OtherUser other(answer);
    const Ran ran = run_tool(fmt::format("status --pid {}", other.pid()));
    EXPECT_EQ(ran.code, 1) << answer;
    EXPECT_NE(ran.text.find("does not answer as a runtime of vmart does"), std::string::npos)
        << ran.text;
  }
}

}  // namespace
}  // namespace vma
