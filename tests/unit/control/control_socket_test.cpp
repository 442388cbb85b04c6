// Goal: only the user (and root) can reach a runtime through its socket; existing files at the path
// are never destroyed by mistake; every failure has its Error. Method: sockets in a temporary
// folder; when run as root, a child process that switches to another user.
#include "control/control_socket.hpp"

#include "unit/control/control_peer.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace vma {
namespace {

constexpr uid_t nobody = 65'534;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

/// The error from opening a socket at `path`.
std::optional<Error> refusal(const std::string& path) {
  try {
    const ControlSocket socket(path);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}
void expect_refused(const std::string& path, ErrorKind kind, const std::string& word) {
  const std::optional<Error> error = refusal(path);
  ASSERT_TRUE(error) << path;
  EXPECT_EQ(error->kind(), kind) << error->what();
  EXPECT_NE(std::string(error->what()).find(word), std::string::npos) << error->what();
}

/// Leaves a socket file whose process is gone.
void leave_stale(const std::string& path) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(descriptor, 1), 0);
  close(descriptor);
}

/// The exit status of a child process that runs `body`.
template <typename Body>
int status_of_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

TEST(ControlSocket, IsOnlyTheUsersWhateverTheUmask) {
  TestFolder folder;
  for (const mode_t mask : {0, 022, 077}) {
    const mode_t before = umask(mask);
    const ControlSocket socket(folder.path("s"));
    umask(before);
    EXPECT_EQ(mode_of(folder.path("s")), 0600U);
  }
}

TEST(ControlSocket, LeavesNothingBehind) {
  TestFolder folder;
  { const ControlSocket socket(folder.path("s")); }
  refusal(std::string(folder.path("none/s")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ControlSocket, LetsTheSameUserAndRootIn) {
  EXPECT_TRUE(may_control({1, 1000, 1000}, 1000));
  EXPECT_TRUE(may_control({1, 0, 0}, 1000));
  EXPECT_FALSE(may_control({1, 1001, 1000}, 1000));  // The group does not matter.
  EXPECT_FALSE(may_control({1, 1000, 1000}, 0));
  EXPECT_FALSE(may_control({0, static_cast<uid_t>(-1), 0}, 1000));
}

TEST(ControlSocket, SeesThatAPeerIsAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  TestFolder folder;
  ControlSocket listening(folder.path("s"));
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const auto connects_as_nobody = [&] {
    return status_of_child([&] {
      if (setgid(nobody) != 0 || setuid(nobody) != 0) return 3;
      return ControlPeer(folder.path("s")).connected() ? 1 : 0;
    });
  };
  EXPECT_EQ(connects_as_nobody(), 0) << "mode 0600 keeps others out";
  ASSERT_EQ(chmod(folder.path("s").c_str(), 0666), 0);  // As if somebody had opened it to others.
  EXPECT_EQ(connects_as_nobody(), 1);
  const int descriptor = listening.release();
  const int peer = accept(descriptor, nullptr, nullptr);
  ASSERT_GE(peer, 0);
  const std::optional<ucred> who = peer_of(peer);
  ASSERT_TRUE(who);
  EXPECT_EQ(who->uid, nobody);
  EXPECT_FALSE(may_control(*who, geteuid()));
  close(peer);
  close(descriptor);
}

TEST(ControlSocket, ReplacesTheFileOfADeadProcess) {
  TestFolder folder;
  leave_stale(folder.path("s"));
  const ControlSocket socket(folder.path("s"));
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
  EXPECT_EQ(mode_of(folder.path("s")), 0600U);
}

TEST(ControlSocket, ReplacesTheSocketThatOnlyAForkedChildOfADeadProcessHolds) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {  // The other one is that of exports.
    TestFolder folder;
    int until[2];
    ASSERT_EQ(pipe(until), 0);
    // The middle process listens, leaves behind a child with its descriptor, and exits.
    ASSERT_EQ(status_of_child([&] {
                new ControlSocket(folder.path("s"), {.type = type});
                if (fork() == 0) {
                  close(until[1]);
                  char byte = 0;
                  // Blocks until the test closes the pipe.
                  _exit(static_cast<int>(read(until[0], &byte, 1)));
                }
                return 0;
              }),
              0);
    close(until[0]);
    EXPECT_EQ(ControlPeer(folder.path("s")).connected(), type == SOCK_STREAM);
    EXPECT_FALSE(refusal(folder.path("s")));
    close(until[1]);
  }
}

TEST(ControlSocket, SweepsWhatDeadProcessesLeft) {
  TestFolder folder;
  for (const char* name : {"vmart-1.sock", "vmart-99.sock", "7.sock", "vmart-x.sock", "a.sock"}) {
    leave_stale(folder.path(name));
  }
  const ControlSocket living(folder.path("vmart-2.sock"));
  {
    const ControlSocket socket(folder.path("vmart-3.sock"));
    EXPECT_FALSE(std::filesystem::exists(folder.path("vmart-1.sock")));
    EXPECT_FALSE(std::filesystem::exists(folder.path("vmart-99.sock")));
    // Nobody listens there either, but the runtime generates no such names here.
    for (const char* name : {"7.sock", "vmart-x.sock", "a.sock", "vmart-2.sock"}) {
      EXPECT_TRUE(std::filesystem::exists(folder.path(name))) << name;
    }
  }
  leave_stale(folder.path("vmart-1.sock"));
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);  // Others may have created it.
  const ControlSocket socket(folder.path("vmart-3.sock"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("vmart-1.sock")));
}

TEST(ControlSocket, SweepsAFolderOnceForMany) {
  TestFolder folder;
  const SocketTerms terms{.sweeps_once = true};
  leave_stale(folder.path("vmart-1.sock"));
  const ControlSocket first(folder.path("a"), terms);
  EXPECT_FALSE(std::filesystem::exists(folder.path("vmart-1.sock")));
  leave_stale(folder.path("vmart-1.sock"));
  const ControlSocket second(folder.path("b"), terms);
  EXPECT_TRUE(std::filesystem::exists(folder.path("vmart-1.sock")));
  const ControlSocket third(folder.path("c"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("vmart-1.sock")));
}

TEST(ControlSocket, LeavesTheExportsOfProcessesThatLive) {
  make_own_folder(control_folder());
  const auto export_of = [](int process) {
    return control_folder() + "/" + std::to_string(process) + "-77.sock";
  };
  const std::string of_live = export_of(getpid());
  const std::string of_dead = export_of(INT_MAX);
  leave_stale(of_live);
  leave_stale(of_dead);
  // Another process that holds the folder locked sweeps itself.
  while (std::filesystem::exists(of_dead)) {
    const ControlSocket socket(export_of(getpid()) + ".beside");
  }
  EXPECT_TRUE(std::filesystem::exists(of_live));
  unlink(of_live.c_str());
}

TEST(ControlSocket, RefusesAPathWhereSomebodyListens) {
  TestFolder folder;
  const ControlSocket socket(folder.path("s"));
  expect_refused(folder.path("s"), ErrorKind::busy, folder.path("s"));
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
}

TEST(ControlSocket, DestroysNothingThatIsNoSocket) {
  TestFolder folder;
  std::ofstream(folder.path("s")) << "precious";
  expect_refused(folder.path("s"), ErrorKind::invalid_argument, "not a socket");
  std::string text;
  std::ifstream(folder.path("s")) >> text;
  EXPECT_EQ(text, "precious");
}

TEST(ControlSocket, LeavesAPathThatShowsAnotherSocketByNow) {
  TestFolder folder;
  auto first = std::make_unique<ControlSocket>(folder.path("s"));
  ASSERT_EQ(unlink(folder.path("s").c_str()), 0);
  const ControlSocket second(folder.path("s"));
  first.reset();
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
}

TEST(ControlSocket, LeavesThePathToTheParentOfAForkedChild) {
  TestFolder folder;
  auto socket = std::make_unique<ControlSocket>(folder.path("s"));
  status_of_child([&] {
    socket.reset();
    return 0;
  });
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
}

TEST(ControlSocket, RefusesPathsThatCannotBe) {
  TestFolder folder;
  expect_refused(folder.path(std::string(200, 'x')), ErrorKind::invalid_argument, "at most");
  expect_refused("@vmart", ErrorKind::invalid_argument, "abstract");
  expect_refused(std::string("\0vmart", 6), ErrorKind::invalid_argument, "abstract");
  expect_refused(folder.path("none/s"), ErrorKind::invalid_argument, "No such file");
  expect_refused(folder.path() + "/", ErrorKind::invalid_argument, "not a file name");
  EXPECT_FALSE(refusal(folder.path(std::string(98 - folder.path().size() - 1, 'x'))));
}

TEST(ControlSocket, RefusesADirectoryThatCannotBeWritten) {
  TestFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  const int status = status_of_child([&] {
    if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) return 3;
    const auto error = refusal(folder.path("s"));
    return error && error->kind() == ErrorKind::invalid_argument ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(ControlSocket, MakesItsOwnFolderPrivateAndTrustsNoOther) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become a user whose folder is not in use";
  constexpr uid_t other = 64'123;
  const std::string theirs = "/tmp/vmart-64123";
  std::filesystem::remove_all(theirs);
  const auto open_as_other = [&] {
    return status_of_child([&] {
      if (setgid(other) != 0 || setuid(other) != 0) return 3;
      umask(0);
      return refusal(control_folder() + "/1.sock") ? 1 : 0;
    });
  };
  EXPECT_EQ(open_as_other(), 0);
  EXPECT_EQ(mode_of(theirs), 0700U);
  ASSERT_EQ(chmod(theirs.c_str(), 0755), 0);
  EXPECT_EQ(open_as_other(), 1) << "others may look into it";
  ASSERT_EQ(chmod(theirs.c_str(), 0700), 0);
  ASSERT_EQ(chown(theirs.c_str(), 0, 0), 0);
  EXPECT_EQ(open_as_other(), 1) << "it is another user's";
  std::filesystem::remove_all(theirs);
  std::filesystem::create_directory_symlink("/var/tmp", theirs);
  EXPECT_EQ(open_as_other(), 1) << "it leads elsewhere";
  std::filesystem::remove(theirs);
}

TEST(ControlPath, IsWhatTheVariableSays) {
  TestFolder folder;
  EXPECT_FALSE(control_path(nullptr));
  EXPECT_FALSE(control_path(""));
  EXPECT_FALSE(control_path("0"));
  EXPECT_FALSE(control_path("off"));
  EXPECT_FALSE(control_path("no"));
  EXPECT_EQ(control_path("/some/where"), "/some/where");
  EXPECT_EQ(control_path("./here"), "./here");
  EXPECT_THROW(control_path("ture"), Error);
  const std::string name = std::to_string(getpid()) + ".sock";
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  EXPECT_EQ(control_path("1"), folder.path("vmart-" + name));
  EXPECT_EQ(control_path("auto"), folder.path("vmart-" + name));
  EXPECT_EQ(control_path("yes"), folder.path("vmart-" + name));
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);  // Others could replace the socket.
  EXPECT_EQ(control_path("1"), control_folder() + "/" + name);
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(control_path("1"), control_folder() + "/" + name);
}

}  // namespace
}  // namespace vma
